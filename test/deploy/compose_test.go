package deploy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

const password = "0123456789abcdef"

// project is compose.yaml as Docker Compose reads it, by its schema.
func project(t *testing.T, env types.Mapping) (*types.Project, error) {
	t.Helper()
	return loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir:  place,
		ConfigFiles: []types.ConfigFile{{Filename: "compose.yaml", Content: []byte(read(t, "compose.yaml"))}},
		Environment: env,
	})
}

// composed are the services of the nodes, and doctor's.
func composed(t *testing.T) (p *types.Project, nodes []types.ServiceConfig, doctor types.ServiceConfig) {
	t.Helper()
	p, err := project(t, types.Mapping{"LOCKS_PASSWORD": password})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range p.ServiceNames() {
		if name == "doctor" {
			doctor = p.Services[name]
		} else {
			nodes = append(nodes, p.Services[name])
		}
	}
	if len(nodes) != 5 || doctor.Name == "" {
		t.Fatalf("compose.yaml has the services %q, want five nodes and doctor", p.ServiceNames())
	}
	return p, nodes, doctor
}

func TestComposeHasNoPasswordOfItsOwn(t *testing.T) {
	if _, err := project(t, nil); err == nil || !strings.Contains(err.Error(), "openssl rand") {
		t.Errorf("compose.yaml without LOCKS_PASSWORD: %v, want to be told how to make one", err)
	}
}

func TestComposeIsReadStrictly(t *testing.T) {
	text := strings.Replace(read(t, "compose.yaml"), "\n  restart:", "\n  restrat:", 1)
	_, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		ConfigFiles: []types.ConfigFile{{Filename: "compose.yaml", Content: []byte(text)}},
		Environment: types.Mapping{"LOCKS_PASSWORD": password},
	})
	if err == nil || !strings.Contains(err.Error(), "restrat") {
		t.Errorf("a key that Compose does not know: %v, want an error that names it", err)
	}
}

func TestComposeHasFiveNodesOfOneKindWithDataAndPortOfTheirOwn(t *testing.T) {
	p, nodes, doctor := composed(t)
	var volumes, ports []string
	for _, n := range nodes {
		if len(n.Volumes) != 1 || n.Volumes[0].Target != "/data" || len(n.Ports) != 1 || n.Ports[0].HostIP != "127.0.0.1" || n.Ports[0].Target != 6379 {
			t.Fatalf("%s has the volumes %v and ports %v, want its data at /data, and port 6379 on the loopback", n.Name, n.Volumes, n.Ports)
		}
		volumes, ports = append(volumes, n.Volumes[0].Source), append(ports, n.Ports[0].Published)
		if _, ok := p.Volumes[n.Volumes[0].Source]; !ok {
			t.Errorf("there is no volume %s", n.Volumes[0].Source)
		}
		if n.Image != nodes[0].Image || !slices.Equal(n.Command, nodes[0].Command) {
			t.Errorf("%s runs %s %q, want what the others run", n.Name, n.Image, n.Command)
		}
		if n.WorkingDir != "/data" {
			t.Errorf("%s works in %q, want its data", n.Name, n.WorkingDir)
		}
		if n.HealthCheck == nil || n.Restart != "unless-stopped" {
			t.Errorf("%s has no health check, or is not restarted", n.Name)
		}
		if d, ok := doctor.DependsOn[n.Name]; !ok || d.Condition != types.ServiceConditionHealthy {
			t.Errorf("doctor does not wait for %s to be healthy", n.Name)
		}
	}
	for _, each := range [][]string{volumes, ports} {
		slices.Sort(each)
		if len(slices.Compact(slices.Clone(each))) != 5 {
			t.Errorf("the nodes have %q, want one each", each)
		}
	}
}

// nodeRecipe is how compose.yaml starts nodes.
func nodeRecipe(p *types.Project, n types.ServiceConfig) recipe {
	r := recipe{image: n.Image, command: n.Command, files: map[string]string{}}
	for _, c := range n.Configs {
		r.files[c.Target] = p.Configs[c.Source].Content
	}
	return r
}

func TestComposeUsersHaveTheRightsOfTheTable(t *testing.T) {
	p, nodes, _ := composed(t)
	for _, n := range nodes {
		if got, want := nodeRecipe(p, n).files["/etc/redis/users.acl"], users(password); got != want {
			t.Errorf("the ACL file of %s is\n%s\nwant that of package acl:\n%s", n.Name, got, want)
		}
	}
}

func TestComposeNodesAreFitAndHealthy(t *testing.T) {
	p, nodes, doctor := composed(t)
	if !slices.Equal(doctor.Command, []string{"doctor"}) {
		t.Errorf("doctor runs %q", doctor.Command)
	}
	var env []string
	for name, value := range doctor.Environment {
		env = append(env, name+"="+*value)
	}
	for _, n := range nodes {
		server := nodeRecipe(p, n).start(t)
		inside := fmt.Sprintf("@%s:6379", n.Name)
		for i := range env {
			env[i] = strings.ReplaceAll(env[i], inside, "@"+server.host+":"+server.port)
		}
		if n.HealthCheck.Test[0] != "CMD-SHELL" {
			t.Fatalf("health check %q of %s, want one by the shell", n.HealthCheck.Test, n.Name)
		}
		server.probe(t, []string{"sh", "-c", n.HealthCheck.Test[1]}, *n.Environment["REDISCLI_AUTH"])
	}
	ripen(t, env)
	examine(t, env)
}
