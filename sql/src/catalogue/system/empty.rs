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
    empty("pg_timezone_names", 12_111, "name text, abbrev text, utc_offset interval, is_dst bool"),
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
];
