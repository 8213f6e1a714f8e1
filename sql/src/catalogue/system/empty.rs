//! Tables of the catalogue that have no rows, since there are no such objects here. Clients name their columns.

use crate::catalogue::system::definition::{Rows, Written};
use crate::catalogue::system::source::Source;
use crate::error::Result;

fn nothing(_: &Source<'_>, _: &mut Rows<'_>) -> Result<()> {
    Ok(())
}

const fn empty(name: &'static str, number: u32, columns: &'static str) -> Written {
    Written { name, number, columns, rows: nothing }
}

pub(super) const TABLES: &[Written] = &[
    empty("pg_auth_members", 1261, "roleid oid, member oid, grantor oid, admin_option bool"),
    empty(
        "pg_conversion",
        2607,
        "oid oid, conname name, connamespace oid, conowner oid, conforencoding int4, \
        contoencoding int4, conproc regproc, condefault bool",
    ),
    empty("pg_db_role_setting", 2964, "setdatabase oid, setrole oid, setconfig text[]"),
    empty("pg_default_acl", 826, "oid oid, defaclrole oid, defaclnamespace oid, defaclobjtype char, defaclacl text[]"),
    empty(
        "pg_event_trigger",
        3466,
        "oid oid, evtname name, evtevent name, evtowner oid, evtfoid oid, \
        evtenabled char, evttags text[]",
    ),
    empty(
        "pg_foreign_data_wrapper",
        2328,
        "oid oid, fdwname name, fdwowner oid, fdwhandler oid, fdwvalidator oid, \
        fdwacl text[], fdwoptions text[]",
    ),
    empty(
        "pg_foreign_server",
        1417,
        "oid oid, srvname name, srvowner oid, srvfdw oid, srvtype text, \
        srvversion text, srvacl text[], srvoptions text[]",
    ),
    empty("pg_foreign_table", 3118, "ftrelid oid, ftserver oid, ftoptions text[]"),
    empty("pg_inherits", 2611, "inhrelid oid, inhparent oid, inhseqno int4, inhdetachpending bool"),
    empty("pg_init_privs", 3394, "objoid oid, classoid oid, objsubid int4, privtype char, initprivs text[]"),
    empty("pg_largeobject", 2613, "loid oid, pageno int4, data bytea"),
    empty("pg_largeobject_metadata", 2995, "oid oid, lomowner oid, lomacl text[]"),
    empty(
        "pg_partitioned_table",
        3350,
        "partrelid oid, partstrat char, partnatts int2, partdefid oid, \
        partattrs int2[], partclass oid[], partcollation oid[], partexprs text",
    ),
    empty(
        "pg_policy",
        3256,
        "oid oid, polname name, polrelid oid, polcmd char, polpermissive bool, \
        polroles oid[], polqual text, polwithcheck text",
    ),
    empty(
        "pg_policies",
        12_105,
        "schemaname name, tablename name, policyname name, permissive text, roles name[], \
        cmd text, qual text, with_check text",
    ),
    empty("pg_prepared_xacts", 12_107, "transaction xid, gid text, prepared timestamptz, owner name, database name"),
    empty(
        "pg_publication",
        6104,
        "oid oid, pubname name, pubowner oid, puballtables bool, pubinsert bool, \
        pubupdate bool, pubdelete bool, pubtruncate bool, pubviaroot bool",
    ),
    empty("pg_publication_rel", 6106, "oid oid, prpubid oid, prrelid oid, prqual text, prattrs int2[]"),
    empty("pg_publication_namespace", 6237, "oid oid, pnpubid oid, pnnspid oid"),
    empty(
        "pg_publication_tables",
        12_108,
        "pubname name, schemaname name, tablename name, attnames name[], \
        rowfilter text",
    ),
    empty("pg_rules", 12_109, "schemaname name, tablename name, rulename name, definition text"),
    empty(
        "pg_seclabels",
        12_112,
        "objoid oid, classoid oid, objsubid int4, objtype text, objnamespace oid, objname text, provider text, \
        label text",
    ),
    empty("pg_seclabel", 3596, "objoid oid, classoid oid, objsubid int4, provider text, label text"),
    empty(
        "pg_shdepend",
        1214,
        "dbid oid, classid oid, objid oid, objsubid int4, refclassid oid, refobjid oid, \
        deptype char",
    ),
    empty("pg_shdescription", 2396, "objoid oid, classoid oid, description text"),
    empty(
        "pg_statistic_ext",
        3381,
        "oid oid, stxrelid oid, stxname name, stxnamespace oid, stxowner oid, \
        stxstattarget int4, stxkeys int2[], stxkind char[], stxexprs text",
    ),
    empty(
        "pg_stats",
        12_110,
        "schemaname name, tablename name, attname name, inherited bool, null_frac float4, \
        avg_width int4, n_distinct float4, most_common_vals text[], most_common_freqs float4[], \
        histogram_bounds text[], correlation float4",
    ),
    empty(
        "pg_subscription",
        6100,
        "oid oid, subdbid oid, subskiplsn text, subname name, subowner oid, subenabled bool, subbinary bool, \
        substream bool, subtwophasestate char, subdisableonerr bool, subconninfo text, subslotname name, \
        subsynccommit text, subpublications text[]",
    ),
    empty("pg_shseclabel", 3592, "objoid oid, classoid oid, provider text, label text"),
    empty("pg_parameter_acl", 6243, "oid oid, parname text, paracl text[]"),
    empty("pg_subscription_rel", 6102, "srsubid oid, srrelid oid, srsubstate char, srsublsn text"),
    empty("pg_replication_origin", 6000, "roident oid, roname text"),
    empty(
        "pg_statistic_ext_data",
        3429,
        "stxoid oid, stxdinherit bool, stxdndistinct text, stxddependencies text, stxdmcv text, stxdexpr text",
    ),
    empty(
        "pg_file_settings",
        12_177,
        "sourcefile text, sourceline int4, seqno int4, name text, setting text, applied bool, error text",
    ),
    empty(
        "pg_hba_file_rules",
        12_178,
        "line_number int4, type text, database text[], user_name text[], address text, netmask text, \
         auth_method text, options text[], error text",
    ),
    empty("pg_transform", 3576, "oid oid, trftype oid, trflang oid, trffromsql regproc, trftosql regproc"),
    empty(
        "pg_trigger",
        2620,
        "oid oid, tgrelid oid, tgparentid oid, tgname name, tgfoid oid, tgtype int2, \
        tgenabled char, tgisinternal bool, tgconstrrelid oid, tgconstrindid oid, tgconstraint oid, \
        tgdeferrable bool, tginitdeferred bool, tgnargs int2, tgattr int2[], tgargs bytea, tgqual text, \
        tgoldtable name, tgnewtable name",
    ),
    empty("pg_ts_config", 3602, "oid oid, cfgname name, cfgnamespace oid, cfgowner oid, cfgparser oid"),
    empty(
        "pg_ts_dict",
        3600,
        "oid oid, dictname name, dictnamespace oid, dictowner oid, dicttemplate oid, \
        dictinitoption text",
    ),
    empty(
        "pg_ts_parser",
        3601,
        "oid oid, prsname name, prsnamespace oid, prsstart regproc, prstoken regproc, prsend regproc, \
        prsheadline regproc, prslextype regproc",
    ),
    empty("pg_ts_template", 3764, "oid oid, tmplname name, tmplnamespace oid, tmplinit regproc, tmpllexize regproc"),
    empty("pg_user_mapping", 1418, "oid oid, umuser oid, umserver oid, umoptions text[]"),
    empty("pg_config", 12_150, "name text, setting text"),
    empty("pg_group", 12_151, "groname name, grosysid oid, grolist oid[]"),
    empty(
        "pg_replication_slots",
        12_152,
        "slot_name name, plugin name, slot_type text, datoid oid, database name, temporary bool, \
        active bool, active_pid int4, xmin xid, catalog_xmin xid, restart_lsn text, \
        confirmed_flush_lsn text, wal_status text, safe_wal_size int8, two_phase bool",
    ),
    empty(
        "pg_stat_archiver",
        12_153,
        "archived_count int8, last_archived_wal text, last_archived_time timestamptz, failed_count int8, \
        last_failed_wal text, last_failed_time timestamptz, stats_reset timestamptz",
    ),
    empty(
        "pg_stat_bgwriter",
        12_154,
        "checkpoints_timed int8, checkpoints_req int8, checkpoint_write_time float8, \
        checkpoint_sync_time float8, buffers_checkpoint int8, buffers_clean int8, maxwritten_clean int8, \
        buffers_backend int8, buffers_backend_fsync int8, buffers_alloc int8, stats_reset timestamptz",
    ),
    empty(
        "pg_stat_progress_create_index",
        12_155,
        "pid int4, datid oid, datname name, relid oid, index_relid oid, command text, phase text, \
        lockers_total int8, lockers_done int8, current_locker_pid int8, blocks_total int8, \
        blocks_done int8, tuples_total int8, tuples_done int8, partitions_total int8, \
        partitions_done int8",
    ),
    empty(
        "pg_stat_progress_vacuum",
        12_156,
        "pid int4, datid oid, datname name, relid oid, phase text, heap_blks_total int8, \
        heap_blks_scanned int8, heap_blks_vacuumed int8, index_vacuum_count int8, max_dead_tuples int8, \
        num_dead_tuples int8",
    ),
    empty(
        "pg_stat_replication",
        12_157,
        "pid int4, usesysid oid, usename name, application_name text, client_addr inet, \
        client_hostname text, client_port int4, backend_start timestamptz, backend_xmin xid, state text, \
        sent_lsn text, write_lsn text, flush_lsn text, replay_lsn text, write_lag interval, \
        flush_lag interval, replay_lag interval, sync_priority int4, sync_state text, \
        reply_time timestamptz",
    ),
    empty(
        "pg_stat_ssl",
        12_158,
        "pid int4, ssl bool, version text, cipher text, bits int4, client_dn text, client_serial numeric, \
        issuer_dn text",
    ),
    empty(
        "pg_stat_subscription",
        12_159,
        "subid oid, subname name, pid int4, relid oid, received_lsn text, last_msg_send_time timestamptz, \
        last_msg_receipt_time timestamptz, latest_end_lsn text, latest_end_time timestamptz",
    ),
    empty(
        "pg_stat_user_functions",
        12_160,
        "funcid oid, schemaname name, funcname name, calls int8, total_time float8, self_time float8",
    ),
    empty(
        "pg_stat_wal_receiver",
        12_161,
        "pid int4, status text, receive_start_lsn text, receive_start_tli int4, written_lsn text, \
        flushed_lsn text, received_tli int4, last_msg_send_time timestamptz, \
        last_msg_receipt_time timestamptz, latest_end_lsn text, latest_end_time timestamptz, \
        slot_name text, sender_host text, sender_port int4, conninfo text",
    ),
    empty(
        "information_schema.foreign_tables",
        13_150,
        "foreign_table_catalog name, foreign_table_schema name, foreign_table_name name, \
        foreign_server_catalog name, foreign_server_name name",
    ),
    empty(
        "information_schema.parameters",
        13_151,
        "specific_catalog name, specific_schema name, specific_name name, ordinal_position int4, \
        parameter_mode text, is_result text, as_locator text, parameter_name name, data_type text, \
        character_maximum_length int4, character_octet_length int4, character_set_catalog name, \
        character_set_schema name, character_set_name name, collation_catalog name, \
        collation_schema name, collation_name name, numeric_precision int4, \
        numeric_precision_radix int4, numeric_scale int4, datetime_precision int4, interval_type text, \
        interval_precision int4, udt_catalog name, udt_schema name, udt_name name, scope_catalog name, \
        scope_schema name, scope_name name, maximum_cardinality int4, dtd_identifier name, \
        parameter_default text",
    ),
    empty(
        "information_schema.triggered_update_columns",
        13_152,
        "trigger_catalog name, trigger_schema name, trigger_name name, event_object_catalog name, \
        event_object_schema name, event_object_table name, event_object_column name",
    ),
];
