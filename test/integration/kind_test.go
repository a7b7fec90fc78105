package integration

import (
	"context"
	"errors"
	"sync"

	"github.com/quorumlock/quorumlock/redlocktest"
	"github.com/quorumlock/quorumlock/test/integration/container"
	"github.com/quorumlock/quorumlock/test/integration/server"
)

// five is how many nodes a kind has.
const five = 5

// A kind is a way to have five nodes. All tests share the five, and repair what they
// break.
type kind struct {
	name    string
	real    bool // a real server, which knows INFO commandstats, ACLs and the like
	prepare func(ctx context.Context) error
	launch  func(ctx context.Context, i int) (server.Node, error)

	nodes   []server.Node
	missing error // why it cannot run here
	broken  error // why it could not be started, though it should
}

var kinds = []*kind{
	{
		name:    "embedded",
		prepare: func(context.Context) error { return nil },
		launch:  func(context.Context, int) (server.Node, error) { return launchEmbedded() },
	},
	{
		name:    "processes",
		real:    true,
		prepare: func(context.Context) error { _, err := server.Find(); return err },
		launch:  func(context.Context, int) (server.Node, error) { return server.Launch() },
	},
	{
		name:    "containers",
		real:    true,
		prepare: container.Prepare,
		launch: func(ctx context.Context, i int) (server.Node, error) {
			images := container.Images()
			return container.Launch(ctx, images[i%len(images)])
		},
	},
}

func (k *kind) start(ctx context.Context) {
	if k.missing = k.prepare(ctx); k.missing != nil {
		return
	}
	k.nodes = make([]server.Node, five)
	errs := make([]error, five)
	var starting sync.WaitGroup
	for i := range five {
		starting.Go(func() {
			node, err := k.launch(ctx, i)
			if errs[i] = err; err == nil {
				k.nodes[i] = node
			}
		})
	}
	starting.Wait()
	k.broken = errors.Join(errs...)
}

func (k *kind) close() error {
	var errs []error
	for _, node := range k.nodes {
		if node != nil {
			errs = append(errs, node.Close())
		}
	}
	return errors.Join(errs...)
}

// An embedded node forgets all when it is killed, as the others do.
type embedded struct{ node *redlocktest.Node }

var _ server.Node = embedded{}

func launchEmbedded() (server.Node, error) {
	nodes, err := redlocktest.New(1)
	if err != nil {
		return nil, err
	}
	return embedded{nodes[0]}, nil
}

func (e embedded) Addr() string    { return e.node.Addr() }
func (e embedded) Kill() error     { e.node.Stop(); return nil }
func (e embedded) Start() error    { return e.node.RestartEmpty() }
func (e embedded) Pause() error    { e.node.Hang(); return nil }
func (e embedded) Continue() error { e.node.Resume(); return nil }
func (e embedded) Close() error    { e.node.Stop(); return nil }
