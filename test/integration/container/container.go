// Package container runs nodes as containers, through testcontainers-go.
package container

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
	"github.com/testcontainers/testcontainers-go/wait"

	"github.com/quorumlock/quorumlock/test/integration/server"
	"github.com/quorumlock/quorumlock/test/redisserver"
)

// patience bounds each thing that a Docker engine is asked to do.
const patience = time.Minute

// inside is the port of the server in its container.
const inside = "6379/tcp"

// Container is a server that runs in a container, at a fixed port of loopback.
type Container struct {
	docker *testcontainers.DockerClient
	made   *testcontainers.DockerContainer
	addr   string
}

var _ server.Node = (*Container)(nil)

// Launch starts a server from image, whose entry point takes a server's arguments,
// with args behind its usual ones. It returns when the server answers.
func Launch(ctx context.Context, image string, args ...string) (*Container, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	docker, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return nil, err
	}
	port, err := redisserver.FreePort()
	if err != nil {
		return nil, err
	}
	c := &Container{docker: docker, addr: fmt.Sprintf("127.0.0.1:%d", port)}

	// Through the bridge a client is not on loopback, hence no protected mode; the
	// port is published on loopback only.
	command := append([]string{"--protected-mode", "no", "--save", ""}, args...)
	c.made, err = testcontainers.Run(ctx, image,
		testcontainers.WithCmd(command...),
		testcontainers.WithExposedPorts(inside),
		testcontainers.WithHostConfigModifier(func(host *container.HostConfig) {
			// A port of Docker's choice would change at every start.
			host.PortBindings = network.PortMap{network.MustParsePort(inside): {{
				HostIP: netip.MustParseAddr("127.0.0.1"), HostPort: strconv.Itoa(port),
			}}}
		}),
		// Not wait.ForListeningPort: Docker's port proxy listens before the server does.
		testcontainers.WithWaitStrategyAndDeadline(patience, wait.ForLog("Ready to accept connections")),
	)
	if err == nil {
		err = server.Await(ctx, c.addr)
	}
	if err != nil {
		_ = c.Close() // the first error says more
		return nil, fmt.Errorf("container of %s: %w", image, err)
	}
	return c, nil
}

// Addr is where clients reach it.
func (c *Container) Addr() string { return c.addr }

// Kill ends the server with SIGKILL, paused or not.
func (c *Container) Kill() error {
	return c.ask("kill", func(ctx context.Context, id string) error {
		// Waiting begins before the kill, or its end could be missed.
		ended := c.docker.ContainerWait(ctx, id, client.ContainerWaitOptions{Condition: container.WaitConditionNextExit})
		if _, err := c.docker.ContainerKill(ctx, id, client.ContainerKillOptions{Signal: "SIGKILL"}); err != nil {
			return err
		}
		select {
		case err := <-ended.Error:
			return err
		case <-ended.Result:
			return nil
		}
	})
}

// Start starts the container again where it was killed.
func (c *Container) Start() error {
	return c.ask("start", func(ctx context.Context, id string) error {
		if _, err := c.docker.ContainerStart(ctx, id, client.ContainerStartOptions{}); err != nil {
			return err
		}
		return server.Await(ctx, c.addr)
	})
}

// Pause freezes the container.
func (c *Container) Pause() error {
	return c.ask("pause", func(ctx context.Context, id string) error {
		_, err := c.docker.ContainerPause(ctx, id, client.ContainerPauseOptions{})
		return err
	})
}

// Continue lets it go on.
func (c *Container) Continue() error {
	return c.ask("unpause", func(ctx context.Context, id string) error {
		_, err := c.docker.ContainerUnpause(ctx, id, client.ContainerUnpauseOptions{})
		return err
	})
}

// Close ends and removes the container.
func (c *Container) Close() error {
	return errors.Join(
		testcontainers.TerminateContainer(c.made, testcontainers.StopTimeout(0)),
		c.docker.Close(),
	)
}

// ask has the Docker engine do something with the container, in bounded time.
func (c *Container) ask(what string, do func(ctx context.Context, id string) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := do(ctx, c.made.GetContainerID()); err != nil {
		return fmt.Errorf("%s container at %s: %w", what, c.addr, err)
	}
	return nil
}

// Images returns the images that QUORUMLOCK_IMAGE names, separated by commas; if it
// is not set, one of Redis and one of Valkey from the registry. Nodes take them in turn.
func Images() []string {
	if names := os.Getenv("QUORUMLOCK_IMAGE"); names != "" {
		return strings.Split(names, ",")
	}
	return []string{"redis:7", "valkey/valkey:8"}
}

// Prepare finds a Docker engine and has the images ready there, pulling those that
// are missing. Its error says what to install or to set.
//
// testcontainers-go removes what a killed test leaves behind by one more container,
// whose image it pulls. Where QUORUMLOCK_IMAGE is set there may be no registry to
// pull it from, so Prepare then does without it, unless TESTCONTAINERS_RYUK_DISABLED
// says otherwise.
func Prepare(ctx context.Context) error {
	log.SetDefault(silent{})
	const reaper = "TESTCONTAINERS_RYUK_DISABLED"
	if _, set := os.LookupEnv(reaper); !set && os.Getenv("QUORUMLOCK_IMAGE") != "" {
		if err := os.Setenv(reaper, "true"); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	docker, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err == nil {
		defer func() { _ = docker.Close() }()
		_, err = docker.Ping(ctx, client.PingOptions{})
	}
	if err != nil {
		return fmt.Errorf("no Docker engine answers (install docker.io): %w", err)
	}
	for _, image := range Images() {
		if _, err := docker.ImageInspect(ctx, image); err == nil {
			continue
		}
		if err := pull(ctx, docker, image); err != nil {
			return fmt.Errorf("no image %s (`make image` builds one from the installed redis-server): %w", image, err)
		}
	}
	return nil
}

func pull(ctx context.Context, docker *testcontainers.DockerClient, image string) error {
	progress, err := docker.ImagePull(ctx, image, client.ImagePullOptions{})
	if err != nil {
		return err
	}
	return errors.Join(progress.Wait(ctx), progress.Close())
}

// silent keeps the progress of containers out of everybody's output.
type silent struct{}

func (silent) Printf(string, ...any) {}
