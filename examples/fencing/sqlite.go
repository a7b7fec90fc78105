package main

import (
	"context"
	"database/sql"
	"errors"

	_ "modernc.org/sqlite" // the driver "sqlite", without C

	"github.com/quorumlock/quorumlock/fence"
)

// inSQLite is an account in a file of its own.
type inSQLite struct{ db *sql.DB }

func openSQLite(file string) (store, error) {
	// The processes wait for one another rather than fail.
	db, err := sql.Open("sqlite", file+"?_pragma=busy_timeout(30000)")
	return inSQLite{db}, err
}

func (s inSQLite) create(ctx context.Context, balance int) error {
	_, err := s.db.ExecContext(ctx, "CREATE TABLE account (balance INTEGER NOT NULL, fence INTEGER NOT NULL)")
	if err == nil {
		_, err = s.db.ExecContext(ctx, "INSERT INTO account VALUES (?1, 0)", balance)
	}
	return err
}

func (s inSQLite) balance(ctx context.Context) (balance int, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT balance FROM account").Scan(&balance)
	return balance, err
}

// The comparison and the write are one statement, and so one transaction. No row is found
// where the fence is stale.

func (s inSQLite) read(ctx context.Context, fence int64) (balance int, err error) {
	err = s.db.QueryRowContext(ctx, "UPDATE account SET fence = ?1 WHERE fence <= ?1 RETURNING balance", fence).Scan(&balance)
	return balance, s.refused(ctx, err, fence)
}

func (s inSQLite) write(ctx context.Context, balance int, fence int64) error {
	err := s.db.QueryRowContext(ctx, "UPDATE account SET balance = ?1, fence = ?2 WHERE fence <= ?2 RETURNING balance", balance, fence).Scan(&balance)
	return s.refused(ctx, err, fence)
}

// refused words what no row says. The fence may have grown since then, and only that.
func (s inSQLite) refused(ctx context.Context, err error, offered int64) error {
	if !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	var last int64
	if err := s.db.QueryRowContext(ctx, "SELECT fence FROM account").Scan(&last); err != nil {
		return err
	}
	return &fence.StaleError{Last: last, Offered: offered}
}

// remove leaves the file to whoever has made its folder.
func (s inSQLite) remove(context.Context) error { return nil }

func (s inSQLite) Close() error { return s.db.Close() }
