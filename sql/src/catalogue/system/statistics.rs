//! Statistics of tables and of the server: `pg_stat_*` and `pg_statio_*`. Rows are told exactly; what nothing here
//! counts is 0 or NULL.

use std::sync::atomic::Ordering;

use crate::catalogue::system::definition::{Rows, Written, int, oid};
use crate::catalogue::system::server::DATABASE;
use crate::catalogue::system::source::Source;
use crate::catalogue::{Table, oids};
use crate::error::Result;
use crate::types::datum::Datum;

const OF_TABLES: &str = "relid oid, schemaname name, relname name, seq_scan int8=0, seq_tup_read int8=0, \
    idx_scan int8=0, idx_tup_fetch int8=0, n_tup_ins int8=0, n_tup_upd int8=0, n_tup_del int8=0, \
    n_tup_hot_upd int8=0, n_live_tup int8, n_dead_tup int8=0, n_mod_since_analyze int8=0, n_ins_since_vacuum int8=0, \
    last_vacuum timestamptz, last_autovacuum timestamptz, last_analyze timestamptz, last_autoanalyze timestamptz, \
    vacuum_count int8=0, autovacuum_count int8=0, analyze_count int8=0, autoanalyze_count int8=0";

const BLOCKS_OF_TABLES: &str = "relid oid, schemaname name, relname name, heap_blks_read int8, heap_blks_hit int8, \
    idx_blks_read int8, idx_blks_hit int8, toast_blks_read int8, toast_blks_hit int8, tidx_blks_read int8, \
    tidx_blks_hit int8";

const OF_INDEXES: &str = "relid oid, indexrelid oid, schemaname name, relname name, indexrelname name, \
    idx_scan int8, idx_tup_read int8, idx_tup_fetch int8";

pub(super) const TABLES: &[Written] = &[
    Written { name: "pg_stat_user_tables", number: 12_008, columns: OF_TABLES, rows: of_tables },
    Written { name: "pg_stat_all_tables", number: 12_009, columns: OF_TABLES, rows: of_tables },
    Written { name: "pg_statio_user_tables", number: 12_170, columns: BLOCKS_OF_TABLES, rows: blocks_of_tables },
    Written { name: "pg_statio_all_tables", number: 12_171, columns: BLOCKS_OF_TABLES, rows: blocks_of_tables },
    Written { name: "pg_stat_user_indexes", number: 12_172, columns: OF_INDEXES, rows: of_indexes },
    Written { name: "pg_stat_all_indexes", number: 12_173, columns: OF_INDEXES, rows: of_indexes },
    Written {
        name: "pg_stat_database",
        number: 12_174,
        columns: "datid oid, datname name, numbackends int4, xact_commit int8, xact_rollback int8, blks_read int8, \
                  blks_hit int8, tup_returned int8, tup_fetched int8, tup_inserted int8, tup_updated int8, \
                  tup_deleted int8, conflicts int8=0, temp_files int8, temp_bytes int8, deadlocks int8, \
                  checksum_failures int8, checksum_last_failure timestamptz, blk_read_time float8, \
                  blk_write_time float8, session_time float8, active_time float8, idle_in_transaction_time float8, \
                  sessions int8, sessions_abandoned int8, sessions_fatal int8, sessions_killed int8, \
                  stats_reset timestamptz",
        rows: |source, rows| {
            let connected = source.shared.sessions.all().len();
            rows.add(&[
                ("datid", oid(DATABASE)),
                ("datname", Datum::text(&source.identity.database)),
                ("numbackends", int(connected as u64)),
                ("temp_files", int(source.shared.file_counts.files.load(Ordering::Relaxed))),
                ("temp_bytes", int(source.shared.file_counts.bytes.load(Ordering::Relaxed))),
            ]);
            Ok(())
        },
    },
    Written {
        name: "pg_stat_gssapi",
        number: 12_175,
        columns: "pid int4, gss_authenticated bool=false, principal text, encrypted bool=false",
        rows: |source, rows| {
            for (process, _) in source.shared.sessions.all() {
                rows.add(&[("pid", Datum::Int(process.into()))]);
            }
            Ok(())
        },
    },
];

/// What all of them say first: the number, the schema and the name of a table.
fn names_of(table: &Table) -> [(&'static str, Datum); 3] {
    [
        ("relid", oid(oids::table(table.number))),
        ("schemaname", Datum::text(&table.schema)),
        ("relname", Datum::text(&table.name)),
    ]
}

fn of_tables(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for table in source.tables() {
        let [relid, schema, name] = names_of(table);
        rows.add(&[relid, schema, name, ("n_live_tup", int(source.count(table, None)?))]);
    }
    Ok(())
}

fn blocks_of_tables(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for table in source.tables() {
        rows.add(&names_of(table));
    }
    Ok(())
}

fn of_indexes(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for index in source.indexes() {
        let [relid, schema, name] = names_of(index.table);
        rows.add(&[relid, schema, name, ("indexrelid", oid(index.oid)), ("indexrelname", Datum::text(&index.name))]);
    }
    Ok(())
}
