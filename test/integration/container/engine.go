package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
)

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
