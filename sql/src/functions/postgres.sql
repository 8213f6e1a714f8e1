-- Makes `postgres.txt` out of the catalogue of a PostgreSQL 15 server:
--     psql -XAtq -f postgres.sql > postgres.txt
-- It has functions, operators, casts and families of operators, of types that are here too, with the numbers that
-- PostgreSQL gives them. Columns stand between tabs; the first of a line says what the line is.
CREATE TEMP TABLE known AS SELECT oid AS number FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace
    AND (typname IN ('int2vector', 'oidvector', 'pg_node_tree', 'unknown', 'void', 'record', 'any', 'anyarray',
        'anyelement', 'anynonarray', 'anyenum', 'anycompatible', 'anycompatiblearray', 'anycompatiblenonarray',
        '_record', 'anyrange', 'anymultirange', 'anycompatiblerange', 'anycompatiblemultirange')
    OR regexp_replace(typname, '^_', '') IN ('bool', 'int2', 'int4', 'int8', 'float4', 'float8', 'numeric', 'text',
        'varchar', 'bpchar', 'char', 'name', 'bytea', 'date', 'time', 'timestamp', 'timestamptz', 'interval', 'uuid',
        'inet', 'cidr', 'macaddr', 'macaddr8', 'bit', 'varbit', 'money', 'timetz', 'json', 'jsonb', 'oid', 'xid',
        'regclass', 'regtype', 'regproc', 'regnamespace', 'regrole', 'int4range', 'int8range', 'numrange', 'daterange', 'tsrange', 'tstzrange',
        'int4multirange',
        'int8multirange', 'nummultirange', 'datemultirange', 'tsmultirange', 'tstzmultirange'));
CREATE TEMP VIEW operators AS SELECT o.* FROM pg_operator o
    WHERE (oprleft = 0 OR oprleft IN (TABLE known)) AND oprright IN (TABLE known) AND oprresult IN (TABLE known);
CREATE TEMP VIEW casts AS SELECT * FROM pg_cast
    WHERE castsource IN (TABLE known) AND casttarget IN (TABLE known);
CREATE TEMP VIEW classes AS SELECT * FROM pg_opclass
    WHERE opcmethod = 403 AND opcintype IN (TABLE known);
CREATE TEMP VIEW members AS SELECT * FROM pg_amop WHERE amopfamily IN (SELECT opcfamily FROM classes)
    AND amopopr IN (SELECT oid FROM operators);
CREATE TEMP VIEW supports AS SELECT * FROM pg_amproc WHERE amprocfamily IN (SELECT opcfamily FROM classes)
    AND amproclefttype IN (TABLE known) AND amprocrighttype IN (TABLE known);
CREATE TEMP VIEW functions AS SELECT p.* FROM pg_proc p
    WHERE pronamespace = 'pg_catalog'::regnamespace
    AND prorettype IN (TABLE known) AND proargtypes::oid[] <@ ARRAY(TABLE known)
    AND proname !~ ('^(pg_stat_get|pg_stat_re|pg_replication|pg_logical|pg_ls|pg_wal|pg_get_wal|pg_lsn|pg_create|'
        'pg_drop|pg_copy|binary_upgrade|pg_xact|pg_mxact|pg_snapshot|txid_[svc]|txid_status|lo_|loread|lowrite|brin|'
        'gin_|pg_backup|pg_start|pg_stop|pg_read|pg_stat_file|pg_rotate|pg_current_wal|pg_last|pg_show|pg_hba|'
        'pg_timezone|pg_config|pg_control|pg_event|pg_extension|pg_available|ts_|pg_[gs]et_repl|pg_promote|'
        'pg_partition_[tr]|pg_get_publ|pg_get_shmem|pg_get_object|pg_identify|pg_describe|RI_|unique_key|'
        'suppress_|cursor_to|query_to|table_to|schema_to|database_to|xml|xpath|pg_(safe|blocking|isolation))');
CREATE TEMP VIEW named AS SELECT oid, proname FROM pg_proc WHERE oid IN (
    SELECT oprcode FROM operators UNION SELECT oprrest FROM operators UNION SELECT oprjoin FROM operators
    UNION SELECT castfunc FROM casts UNION SELECT amproc FROM supports
    UNION SELECT unnest(ARRAY[typinput, typoutput, typreceive, typsend, typmodin, typmodout, typanalyze,
        typsubscript]::oid[]) FROM pg_type WHERE oid IN (TABLE known)
    UNION SELECT unnest(ARRAY[rngcanonical, rngsubdiff]::oid[]) FROM pg_range
    UNION SELECT unnest('{enum_in,enum_out,enum_recv,enum_send,domain_in,domain_recv}'::regproc[]::oid[])
    UNION SELECT unnest(ARRAY[aggtransfn, aggfinalfn, aggcombinefn, aggserialfn, aggdeserialfn, aggmtransfn,
        aggminvtransfn, aggmfinalfn]::oid[]) FROM pg_aggregate WHERE aggfnoid IN (SELECT oid FROM functions));
CREATE TEMP TABLE lines (kind int, number oid, line text);
INSERT INTO lines SELECT 1, p.oid, concat_ws(E'\t', 'function', p.oid, proname, prokind,
    array_to_string(proargtypes::oid[], ' '), prorettype, proparallel, proleakproof, prorows,
    coalesce(array_to_string(proallargtypes, ' '), ''), coalesce(array_to_string(proargmodes, ' '), ''),
    coalesce(array_to_string(proargnames, ' '), ''), coalesce(d.description, ''))
    FROM functions p LEFT JOIN pg_description d ON d.objoid = p.oid AND d.classoid = 'pg_proc'::regclass;
INSERT INTO lines SELECT 2, p.oid, concat_ws(E'\t', 'name', p.oid, proname, array_to_string(proargtypes::oid[], ' '),
    substring(p.oid::regprocedure::text FROM '[(](.*)[)]'), prorettype) FROM pg_proc p
    WHERE oid IN (SELECT oid FROM named) AND oid NOT IN (SELECT oid FROM functions);
INSERT INTO lines SELECT 3, o.oid, concat_ws(E'\t', 'operator', o.oid, oprname, oprleft, oprright, oprresult,
    oprcom, oprnegate, oprcode::oid, oprrest::oid, oprjoin::oid, oprcanmerge, oprcanhash, coalesce(d.description, ''))
    FROM operators o LEFT JOIN pg_description d ON d.objoid = o.oid AND d.classoid = 'pg_operator'::regclass;
INSERT INTO lines SELECT 4, oid, concat_ws(E'\t', 'cast', oid, castsource, casttarget, castfunc, castcontext,
    castmethod) FROM casts;
INSERT INTO lines SELECT 5, aggfnoid, concat_ws(E'\t', 'aggregate', aggfnoid::oid, aggkind, aggnumdirectargs,
    aggtransfn::oid, aggfinalfn::oid, aggcombinefn::oid, aggserialfn::oid, aggdeserialfn::oid, aggmtransfn::oid,
    aggminvtransfn::oid, aggmfinalfn::oid, aggfinalextra, aggmfinalextra, aggfinalmodify, aggmfinalmodify, aggsortop,
    aggtranstype, aggtransspace, aggmtranstype, aggmtransspace, coalesce(agginitval, '-'), coalesce(aggminitval, '-'))
    FROM pg_aggregate WHERE aggfnoid IN (SELECT oid FROM functions);
INSERT INTO lines SELECT 6, oid, concat_ws(E'\t', 'family', oid, opfname) FROM pg_opfamily
    WHERE oid IN (SELECT opcfamily FROM classes);
INSERT INTO lines SELECT 7, oid, concat_ws(E'\t', 'class', oid, opcname, opcfamily, opcintype, opcdefault, opckeytype)
    FROM classes;
INSERT INTO lines SELECT 8, oid, concat_ws(E'\t', 'member', oid, amopfamily, amoplefttype, amoprighttype,
    amopstrategy, amopopr) FROM members;
INSERT INTO lines SELECT 9, oid, concat_ws(E'\t', 'support', oid, amprocfamily, amproclefttype, amprocrighttype,
    amprocnum, amproc::oid) FROM supports;
INSERT INTO lines SELECT 10, oid, concat_ws(E'\t', 'type', oid, typname, typinput::oid, typoutput::oid,
    typreceive::oid, typsend::oid, typmodin::oid, typmodout::oid, typanalyze::oid, typsubscript::oid, typalign,
    typstorage, coalesce(d.description, '')) FROM pg_type t
    LEFT JOIN pg_description d ON d.objoid = t.oid AND d.classoid = 'pg_type'::regclass WHERE oid IN (TABLE known);
INSERT INTO lines SELECT 11, row_number() OVER (ORDER BY word COLLATE "C"), concat_ws(E'\t', 'word', word, catcode,
    barelabel) FROM pg_get_keywords();
SELECT line FROM lines ORDER BY kind, number;
