// node-postgres: what an application does with it, which connects where PGHOST and its like say.
'use strict'
const assert = require('node:assert/strict')
const { Readable, Writable } = require('node:stream')
const { pipeline } = require('node:stream/promises')
const pg = require('pg')
const Cursor = require('pg-cursor')
const copyStreams = require('pg-copy-streams')

const checks = []
const check = (name, run) => checks.push([name, run])
const sleep = milliseconds => new Promise(resolve => setTimeout(resolve, milliseconds))

/** Runs something with a client of its own. */
async function withClient(run, options = {}) {
  const client = new pg.Client(options)
  await client.connect()
  try {
    return await run(client)
  } finally {
    await client.end()
  }
}

async function rejected(code, promise) {
  try {
    await promise
  } catch (error) {
    assert.equal(error.code, code, `${error.message} (${error.code}, wanted ${code})`)
    return error
  }
  assert.fail(`no error, wanted ${code}`)
}

const values = (client, text, parameters) =>
  client.query({ text, values: parameters, rowMode: 'array' }).then(result => result.rows)

check('login', async () => {
  await withClient(async client => {
    assert.deepEqual(await values(client, 'SELECT current_user::text, $1::int + 1', [41]), [[process.env.PGUSER, 42]])
    assert.deepEqual(await values(client, 'SHOW application_name'), [['till']])
    assert.deepEqual(await values(client, 'SHOW statement_timeout'), [['5s']])
  }, { application_name: 'till', statement_timeout: 5000 })
  await rejected('28P01', withClient(() => {}, { password: 'not it' }))
})

check('types', () => withClient(async client => {
  const types = {
    int2: [-32768], int4: [2147483647], int8: ['-9223372036854775808'], float4: [0.5], float8: [0.1, -1e300, Infinity],
    numeric: ['-123456789012345678901234567890.12300'], 'numeric(8,2)': ['0.10'], text: ['', 'ä\'"\\\n€𝄞'],
      'char(3)': ['ab '],
    bool: [true, false], bytea: [Buffer.from([0, 255, 92, 39])], uuid: ['12345678-9abc-def0-1234-56789abcdef0'],
    timestamptz: [new Date('2038-01-19T03:14:08.005Z')], timestamp: [new Date(1999, 11, 31, 23, 59, 59, 999)],
    date: [new Date(2024, 1, 29)], time: ['23:59:59.999999'], jsonb: [{ a: [1, null, 'ä'], b: { c: 1.5 } }],
      json: [{ x: 1 }],
    'int4[]': [[], [1, null, 3], [[1, 2], [3, 4]]], 'text[]': [['a,b', null, '"', '', 'NULL']], 'numeric[]': [[1.5]],
    'uuid[]': [['12345678-9abc-def0-1234-56789abcdef0']], 'timestamptz[]': [[new Date('2024-01-01T00:00:00Z')]],
    'jsonb[]': [[{ a: 1 }, null]], inet: ['10.0.0.0/8'], int4range: ['[1,5)'],
  }
  let number = 0
  for (const [type, all] of Object.entries(types)) {
    const table = `node_${number++}`
    await client.query(`CREATE TABLE ${table} (id int PRIMARY KEY, v ${type})`)
    for (const [id, value] of [...all, null].entries()) {
      const named = { name: table, text: `INSERT INTO ${table} VALUES ($1, $2) RETURNING v`, values: [id, value] }
      assert.deepEqual((await client.query(named)).rows, [{ v: value }], type)
      assert.deepEqual((await client.query(`SELECT v FROM ${table} WHERE id = ${id}`)).rows, [{ v: value }], type)
    }
  }
  const { rows } = await client.query("SELECT $1::interval AS i", ['1 year 2 mons -3 days 04:05:06.789'])
  assert.deepEqual({ ...rows[0].i }, { years: 1, months: 2, days: -3, hours: 4, minutes: 5, seconds: 6,
    milliseconds: 789 })
  const binary = await client.query({ text: 'SELECT $1::int4 AS i, $2::text AS t, $3::bool AS b', values: [7, 'ä',
    true], binary: true })
  assert.deepEqual({ ...binary.rows[0] }, { i: 7, t: 'ä', b: true })
}))

check('statements', () => withClient(async client => {
  const created = await client.query('CREATE TABLE people (id serial PRIMARY KEY, name text NOT NULL, born date)')
  assert.equal(created.command, 'CREATE')
  const inserted = await client.query(
    'INSERT INTO people (name) SELECT $1 || n FROM generate_series(1, 50) n RETURNING id', ['p'])
  assert.deepEqual([inserted.rowCount, inserted.rows[49].id], [50, 50])
  assert.equal((await client.query("UPDATE people SET born = '2000-01-01' WHERE id = ANY($1)", [[1, 2,
    99]])).rowCount, 2)
  const several = await client.query('SELECT 1 AS one; SELECT 2 AS two; DELETE FROM people WHERE id > 48')
  assert.deepEqual(several.map(result => [result.command, result.rowCount]), [['SELECT', 1], ['SELECT', 1], ['DELETE',
    2]])
  const described = await client.query(
    'SELECT id, name, born, price::numeric(8,2) FROM people, (SELECT 1.5 AS price) p LIMIT 0')
  assert.deepEqual(described.fields.map(field => [field.name, field.dataTypeID, field.dataTypeModifier,
    field.columnID]),
    [['id', 23, -1, 1], ['name', 25, -1, 2], ['born', 1082, -1, 3], ['price', 1700, 524294, 0]])
  for (let round = 0; round < 3; round++) {
    if (round === 2) await client.query('ALTER TABLE people ADD extra int DEFAULT 5')
    const named = { name: 'one', text: 'SELECT name FROM people WHERE id = $1', values: [round + 1] }
    assert.deepEqual((await client.query(named)).rows, [{ name: `p${round + 1}` }])
  }
}))

check('pipelines', () => withClient(async client => {
  await client.query('CREATE TABLE piped (id int PRIMARY KEY)')
  const insert = n => client.query('INSERT INTO piped VALUES ($1) RETURNING id', [n % 90])
  const answers = await Promise.allSettled([...Array(100).keys()].map(insert))
  assert.deepEqual(answers.map(answer => answer.value?.rows[0].id ?? answer.reason.code),
    [...Array(90).keys(), ...Array(10).fill('23505')])
}, { pipeline: true }))

check('errors', () => withClient(async client => {
  await client.query(
    "CREATE TABLE parents (id int PRIMARY KEY, name varchar(3) NOT NULL, CONSTRAINT known CHECK (name <> 'no'))")
  await client.query('CREATE TABLE children (parent int REFERENCES parents)')
  await client.query("INSERT INTO parents VALUES (1, 'a')")
  const error = await rejected('23505', client.query("INSERT INTO parents VALUES ($1, 'b')", [1]))
  assert.deepEqual([error.severity, error.constraint, error.table, error.schema, error.detail],
    ['ERROR', 'parents_pkey', 'parents', 'public', 'Key (id)=(1) already exists.'])
  assert.equal((await rejected('23503', client.query('INSERT INTO children VALUES (2)'))).constraint,
    'children_parent_fkey')
  assert.equal((await rejected('23502', client.query('INSERT INTO parents VALUES (2, $1)', [null]))).column, 'name')
  await rejected('23514', client.query("INSERT INTO parents VALUES (2, 'no')"))
  await rejected('22001', client.query("INSERT INTO parents VALUES (2, 'long')"))
  assert.equal((await rejected('42P01', client.query('SELECT * FROM nothing WHERE id = $1', [1]))).position, '15')
  await rejected('42601', client.query('SELEC 1'))
  await rejected('22P02', client.query('SELECT $1::int', ['x']))
  await rejected('08P01', client.query('SELECT $1::int', [1, 2]))
  await rejected('42P02', client.query('SELECT $1::int'))
  await client.query('BEGIN')
  await rejected('22012', client.query('SELECT 1 / $1::int', [0]))
  await rejected('25P02', client.query('SELECT 1'))
  assert.equal((await client.query('COMMIT')).command, 'ROLLBACK')
}))

check('transactions', () => withClient(one => withClient(async two => {
  await one.query('CREATE TABLE counters (id int PRIMARY KEY, n int); INSERT INTO counters VALUES (1, 0), (2, 0)')
  for (const [at, client] of [one, two].entries()) {
    await client.query('BEGIN ISOLATION LEVEL SERIALIZABLE')
    await client.query('SELECT sum(n) FROM counters')
    await client.query('UPDATE counters SET n = n + 1 WHERE id = $1', [at + 1])
  }
  await one.query('COMMIT')
  await rejected('40001', two.query('COMMIT'))
  await one.query('BEGIN')
  await one.query('SAVEPOINT s')
  await rejected('23505', one.query('INSERT INTO counters VALUES (1, 1)'))
  await one.query('ROLLBACK TO s')
  await one.query('UPDATE counters SET n = 10 WHERE id = 1')
  const waits = two.query('UPDATE counters SET n = n + 1 WHERE id = 1 RETURNING n')
  await sleep(100)
  await one.query('COMMIT')
  assert.deepEqual((await waits).rows, [{ n: 11 }])
})))

check('cursors', () => withClient(async client => {
  await client.query('BEGIN')
  const cursor = client.query(new Cursor('SELECT n::int FROM generate_series(1, $1::int) n', [1000]))
  let sum = 0
  for (let rows = await cursor.read(70); rows.length > 0; rows = await cursor.read(70)) {
    for (const row of rows) sum += row.n
  }
  assert.equal(sum, 500500)
  const left = client.query(new Cursor('SELECT generate_series(1, 1000000)'))
  await left.read(1)
  await left.close()
  assert.deepEqual((await client.query('SELECT 2 AS two')).rows, [{ two: 2 }])
  await client.query('COMMIT')
}))

check('copy', () => withClient(async client => {
  await client.query('CREATE TABLE copied (id int PRIMARY KEY, v text)')
  const lines = [...Array(2000).keys()].map(n => `${n}\tv${n}\n`)
  const into = client.query(copyStreams.from('COPY copied FROM STDIN'))
  await pipeline(Readable.from(lines), into)
  assert.equal(into.rowCount, 2000)
  let text = ''
  const collect = new Writable({ write(chunk, _, done) { text += chunk; done() } })
  await pipeline(client.query(copyStreams.to('COPY (SELECT * FROM copied ORDER BY id) TO STDOUT')), collect)
  assert.equal(text, lines.join(''))
  await rejected('23505', pipeline(Readable.from(['1\ta\n']), client.query(copyStreams.from('COPY copied FROM STDIN'))))
  assert.deepEqual(await values(client, 'SELECT count(*)::int FROM copied'), [[2000]])
}))

check('notifications', () => withClient(listener => withClient(async speaker => {
  const heard = []
  listener.on('notification', told => heard.push([told.channel, told.payload, told.processId]))
  await listener.query('LISTEN news')
  await speaker.query('BEGIN')
  await speaker.query("SELECT pg_notify('news', $1)", ['€uro'])
  await sleep(100)
  assert.deepEqual(heard, [])
  await speaker.query('COMMIT')
  for (let round = 0; round < 100 && heard.length === 0; round++) await sleep(20)
  assert.deepEqual(heard, [['news', '€uro', speaker.processID]])
  const notices = []
  speaker.on('notice', notice => notices.push([notice.severity, notice.code]))
  await speaker.query('DROP TABLE IF EXISTS not_there')
  assert.deepEqual(notices, [['NOTICE', '00000']])
})))

check('cancels', () => withClient(client => withClient(async other => {
  const slow = rejected('57014', client.query('SELECT pg_sleep(20)'))
  await sleep(200)
  assert.deepEqual(await values(other, 'SELECT pg_cancel_backend($1)', [client.processID]), [[true]])
  await slow
  assert.deepEqual(await values(client, 'SELECT 1'), [[1]])
})))

check('pools', async () => {
  const pool = new pg.Pool({ max: 5 })
  await pool.query('CREATE TABLE tally (id int PRIMARY KEY, n int); INSERT INTO tally VALUES (1, 0)')
  await Promise.all([...Array(100).keys()].map(async () => {
    const client = await pool.connect()
    try {
      await client.query('BEGIN')
      const { rows } = await client.query('SELECT n FROM tally WHERE id = 1 FOR UPDATE')
      await client.query('UPDATE tally SET n = $1 WHERE id = 1', [rows[0].n + 1])
      await client.query('COMMIT')
    } finally {
      client.release()
    }
  }))
  assert.deepEqual((await pool.query('SELECT n FROM tally')).rows, [{ n: 100 }])
  assert.ok(pool.totalCount <= 5)
  await pool.end()
})

const here = error => (error.stack.match(/node_app\.js:\d+/g) ?? []).slice(0, 2).join(' < ')

async function main() {
  let failed = 0
  for (const [name, run] of checks) {
    try {
      await run()
    } catch (error) {
      failed++
      console.log(`node: ${name} FAILED (${here(error)}): ${error.message}`)
    }
  }
  console.log(`node: ${checks.length - failed} passed, ${failed} failed`)
  process.exit(failed > 0 ? 1 : 0)
}

main()
