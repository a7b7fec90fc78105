package inspect_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/inspect"
)

// nodes are those of the service's Locker: goredis.Open(urls...) makes them.
var nodes []driver.Node

// A service shows its operators whether its nodes are fit, by the settings of its Locker.
func ExampleDoctor() {
	settings := inspect.Settings{Prefix: "orders:", TTL: 10 * time.Second, Fences: true}
	http.HandleFunc("/debug/locks", func(w http.ResponseWriter, r *http.Request) {
		report := inspect.Doctor(r.Context(), nodes, inspect.Options{Settings: settings})
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(report) // who asks may have gone away
	})
}

func ExampleReport_All() {
	report := inspect.Report{Findings: []inspect.Finding{{
		ID: "count", Severity: inspect.Warning, Seen: inspect.Seen{"nodes": 2, "answer": 2}, Why: "the loss of one node ends all locks",
	}}}
	for _, f := range report.All() {
		fmt.Printf("%s %s: %v: %s\n", f.Severity, f.ID, f.Seen, f.Why)
	}
	// Output: warning count: answer 2, nodes 2: the loss of one node ends all locks
}

func ExampleParseEndpoint() {
	end, err := inspect.ParseEndpoint("redis://locks:secret@10.0.0.1:7000/2")
	fmt.Println(end.CLI, err)
	// Output: redis-cli -h 10.0.0.1 -p 7000 -n 2 <nil>
}

// An operator's page takes a key from a holder that hangs, and says when it is free.
func ExampleRevoke() {
	settings := inspect.Settings{Prefix: "orders:", LongestTTL: time.Minute}
	http.HandleFunc("POST /debug/locks/{key}/revoke", func(w http.ResponseWriter, r *http.Request) {
		seen, err := inspect.Look(r.Context(), nodes, r.PathValue("key"), settings)
		if err != nil || !seen.Held() {
			http.Error(w, fmt.Sprintf("nothing to revoke: %v", err), http.StatusConflict)
			return
		}
		done, err := inspect.Revoke(r.Context(), nodes, seen, inspect.RevokeOptions{Settings: settings, Reason: r.FormValue("reason")})
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable) // the holder may go on: try again
			return
		}
		_ = json.NewEncoder(w).Encode(done) // who asks may have gone away
	})
}

// A service shows its operators who holds a key.
func ExampleStatus() {
	http.HandleFunc("/debug/locks/orders", func(w http.ResponseWriter, r *http.Request) {
		report, err := inspect.Status(r.Context(), nodes, inspect.StatusOptions{
			Settings: inspect.Settings{Prefix: "orders:"}, Keys: []string{"42"},
		})
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_ = json.NewEncoder(w).Encode(report) // who asks may have gone away
	})
}
