package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// A manifest is what folder kubernetes has, by names.
type manifest struct {
	configs  map[string]core.ConfigMap
	services map[string]core.Service
	sets     map[string]apps.StatefulSet
	leaders  map[string]apps.Deployment
	jobs     map[string]batch.Job
	crons    map[string]batch.CronJob
	budgets  map[string]policy.PodDisruptionBudget
}

// decode reads an object, no field of which is unknown or there twice.
func decode[T any](t *testing.T, into *map[string]T, text string) {
	t.Helper()
	var named meta.PartialObjectMetadata
	object := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), object); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	if err := yaml.Unmarshal([]byte(text), &named); err != nil || named.Name == "" {
		t.Fatalf("an object without a name: %v:\n%s", err, text)
	}
	if _, twice := (*into)[named.Name]; twice {
		t.Fatalf("%s %s is there twice", named.Kind, named.Name)
	}
	if *into == nil {
		*into = map[string]T{}
	}
	(*into)[named.Name] = *object
}

func readManifest(t *testing.T) (m manifest) {
	t.Helper()
	var objects []*resource.Resource
	for _, folder := range []string{"kubernetes", "kubernetes/clients"} { // each by itself, as by kubectl -k
		built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), place+folder)
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, built.Resources()...)
	}
	for _, object := range objects {
		text := object.MustYaml()
		var kind meta.TypeMeta
		if err := yaml.Unmarshal([]byte(text), &kind); err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
		switch kind {
		case meta.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}:
			decode(t, &m.configs, text)
		case meta.TypeMeta{APIVersion: "v1", Kind: "Service"}:
			decode(t, &m.services, text)
		case meta.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"}:
			decode(t, &m.sets, text)
		case meta.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}:
			decode(t, &m.leaders, text)
		case meta.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}:
			decode(t, &m.jobs, text)
		case meta.TypeMeta{APIVersion: "batch/v1", Kind: "CronJob"}:
			decode(t, &m.crons, text)
		case meta.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"}:
			decode(t, &m.budgets, text)
		default:
			t.Fatalf("folder kubernetes has a %+v, of which this test knows nothing", kind)
		}
	}
	return m
}

func TestKubernetesHasFiveSetsOfOneNode(t *testing.T) {
	m := readManifest(t)
	if len(m.sets) != 5 {
		t.Fatalf("folder kubernetes has %d sets, want five", len(m.sets))
	}
	lease, err := time.ParseDuration(m.configs["quorumlock"].Data["QUORUMLOCK_LONGEST_TTL"])
	if err != nil {
		t.Fatal(err)
	}
	for name, set := range m.sets {
		number := strings.TrimPrefix(name, "quorumlock-")
		labels := set.Spec.Template.Labels
		if *set.Spec.Replicas != 1 || labels["app"] != "quorumlock" || labels["node"] != number {
			t.Errorf("set %s has %d nodes with the labels %v, want one with its number", name, *set.Spec.Replicas, labels)
		}
		if ready := time.Duration(set.Spec.Template.Spec.Containers[0].ReadinessProbe.InitialDelaySeconds) * time.Second; ready < lease {
			t.Errorf("a node of set %s is ready after %v, which is less than the longest lease %v: a drain would not wait for its vote", name, ready, lease)
		}
		apart := set.Spec.Template.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		if len(apart) != 1 || apart[0].TopologyKey != core.LabelHostname || meta.FormatLabelSelector(apart[0].LabelSelector) != "app in ("+labels["app"]+")" {
			t.Errorf("set %s keeps away from %v, want the machines of all nodes", name, apart)
		}
		if set.Spec.UpdateStrategy.Type != apps.OnDeleteStatefulSetStrategyType {
			t.Errorf("set %s is updated by %s: a change of all sets would restart all nodes at a time", name, set.Spec.UpdateStrategy.Type)
		}
		if !m.services[name].Spec.PublishNotReadyAddresses {
			t.Errorf("nobody finds the node of service %s until it is ready, so its quarantine does not end", name)
		}
		if s := m.services[name]; s.Spec.Selector["node"] != number || s.Spec.Selector["app"] != labels["app"] || set.Spec.ServiceName != s.Name {
			t.Errorf("service %s selects %v, want the node of its set", name, s.Spec.Selector)
		}
	}
	if b := m.budgets["quorumlock"]; b.Spec.MaxUnavailable.IntValue() != 1 || b.Spec.Selector.MatchLabels["app"] != "quorumlock" {
		t.Errorf("the budget lets %v of %v go, want one node", b.Spec.MaxUnavailable, b.Spec.Selector.MatchLabels)
	}
}

// clients are the containers that ask the nodes.
func (m manifest) clients(t *testing.T) map[string]core.Container {
	t.Helper()
	all := map[string]core.Container{}
	for _, pod := range []core.PodSpec{
		m.jobs["quorumlock-ready"].Spec.Template.Spec,
		m.crons["nightly"].Spec.JobTemplate.Spec.Template.Spec,
		m.leaders["scheduler"].Spec.Template.Spec,
	} {
		for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
			if len(c.EnvFrom) > 0 {
				all[c.Name] = c
			}
		}
	}
	if len(all) != 3 {
		t.Fatalf("folder kubernetes has %d clients, want ready, nightly and elect", len(all))
	}
	return all
}

// environment is what a container finds: variables of the secret, of configurations, and those that
// are made of them.
func (m manifest) environment(t *testing.T, c core.Container) (env []string) {
	t.Helper()
	for _, from := range c.EnvFrom {
		for name, value := range m.configs[from.ConfigMapRef.Name].Data {
			env = append(env, name+"="+value)
		}
	}
	for _, v := range c.Env {
		if ref := v.ValueFrom; ref != nil {
			if ref.SecretKeyRef.Name != "quorumlock" || ref.SecretKeyRef.Key != "password" {
				t.Fatalf("%s of %s is from %v, want the secret's password", v.Name, c.Name, ref.SecretKeyRef)
			}
			v.Value = password
		}
		env = append(env, v.Name+"="+strings.ReplaceAll(v.Value, "$(PASSWORD)", password))
	}
	return env
}

func TestKubernetesNodesAreFitAndReady(t *testing.T) {
	m := readManifest(t)
	clients := m.clients(t)
	env := m.environment(t, clients["ready"])
	for _, c := range clients {
		other := m.environment(t, c)
		slices.Sort(env)
		if slices.Sort(other); !slices.Equal(env, other) {
			t.Errorf("%s has the environment %q, and another client %q", c.Name, other, env)
		}
	}
	for name, set := range m.sets {
		pod := set.Spec.Template.Spec
		init, node := pod.InitContainers[0], pod.Containers[0]
		folder := t.TempDir()
		script := exec.CommandContext(t.Context(), init.Command[0], append(init.Command[1:], strings.ReplaceAll(init.Args[0], "/acl/", folder+"/"))...) //nolint:gosec // as the file says
		script.Env = append(m.environment(t, init), "PATH="+os.Getenv("PATH"))
		if out, err := script.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
		acl, err := os.ReadFile(filepath.Join(folder, "users.acl")) //nolint:gosec // of the test
		if err != nil {
			t.Fatal(err)
		}
		if got, want := string(acl), users(password); got != want {
			t.Errorf("the ACL file of %s is\n%s\nwant that of package acl:\n%s", name, got, want)
		}
		if node.WorkingDir != "/data" {
			t.Errorf("%s works in %q, want its data", name, node.WorkingDir)
		}
		server := recipe{image: node.Image, command: node.Command, files: map[string]string{
			"/etc/redis/node.conf": m.configs["quorumlock-node"].Data["node.conf"],
			"/acl/users.acl":       string(acl),
		}}.start(t)
		server.probe(t, node.ReadinessProbe.Exec.Command, password)
		for i := range env {
			env[i] = strings.ReplaceAll(env[i], "@"+name+":6379", "@"+server.host+":"+server.port)
		}
	}
	ripen(t, env)
	examine(t, env)
}

// Compose and Kubernetes have nodes of one kind.
func TestKubernetesNodesAreConfiguredAsComposeHasThem(t *testing.T) {
	p, nodes, _ := composed(t)
	compose := nodeRecipe(p, nodes[0])
	want := strings.ReplaceAll(compose.files["/etc/redis/node.conf"], "/etc/redis/users.acl", "/acl/users.acl")
	m := readManifest(t)
	if got := m.configs["quorumlock-node"].Data["node.conf"]; got != want {
		t.Errorf("the nodes are configured by\n%s\nand those of compose.yaml by\n%s", got, want)
	}
	if got := m.sets["quorumlock-1"].Spec.Template.Spec.Containers[0].Image; got != compose.image {
		t.Errorf("the nodes run %s, and those of compose.yaml %s", got, compose.image)
	}
}

func TestThePodThatLeadsIsReady(t *testing.T) {
	d := readManifest(t).leaders["scheduler"]
	if d.Spec.Strategy.Type != apps.RecreateDeploymentStrategyType {
		t.Errorf("the Deployment is updated by %s: its new pods would wait to lead for ever", d.Spec.Strategy.Type)
	}
	for _, c := range d.Spec.Template.Spec.InitContainers {
		if c.Name != "elect" {
			continue
		}
		if c.RestartPolicy == nil || *c.RestartPolicy != core.ContainerRestartPolicyAlways {
			t.Error("elect is no sidecar: the key may be free while the scheduler runs")
		}
		i := slices.Index(c.Args, "--listen")
		if i < 0 || c.Args[0] != "elect" || c.Args[i+1] != ":4040" || len(c.Ports) != 1 || c.Ports[0].ContainerPort != 4040 {
			t.Errorf("elect has the arguments %q and the ports %v, want port 4040", c.Args, c.Ports)
		}
		for path, probe := range map[string]*core.Probe{"/leader": c.ReadinessProbe, "/healthz": c.LivenessProbe} {
			if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != path || probe.HTTPGet.Port.StrVal != c.Ports[0].Name {
				t.Errorf("the probe of %s is %v", path, probe)
			}
		}
		return
	}
	t.Error("no container elects")
}
