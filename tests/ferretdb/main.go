// A MongoDB wire server for the tests: FerretDB, embedded. `go build -o ../../build/ferretdb .` here makes it.
//
//	ferretdb ADDRESS BACKEND
//
// BACKEND is file:/folder/ (SQLite, a file a database) or postgres://... It runs until SIGTERM.
package main

import (
	"context"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/FerretDB/FerretDB/ferretdb"
)

// FerretDB attaches every document to its log lines, written or not: a third of the time of an insert.
type warnings struct{ slog.Handler }

func (warnings) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }
func (w warnings) WithAttrs([]slog.Attr) slog.Handler             { return w }
func (w warnings) WithGroup(string) slog.Handler                  { return w }

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: ferretdb ADDRESS BACKEND")
	}
	debug.SetGCPercent(400)
	config := &ferretdb.Config{
		Listener: ferretdb.ListenerConfig{TCP: os.Args[1]},
		Logger:   slog.New(warnings{slog.NewTextHandler(os.Stderr, nil)}),
	}
	if backend := os.Args[2]; strings.HasPrefix(backend, "file:") {
		config.Handler, config.SQLiteURL = "sqlite", backend
	} else {
		config.Handler, config.PostgreSQLURL = "postgresql", backend
	}
	server, err := ferretdb.New(config)
	if err != nil {
		log.Fatal(err)
	}
	until, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := server.Run(until); err != nil {
		log.Fatal(err)
	}
}
