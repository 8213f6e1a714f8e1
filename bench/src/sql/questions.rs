//! The statements that are measured.

/// A statement, or a few, as a script of `pgbench` over the tables that [`Question::SCHEMA`] makes.
pub(crate) struct Question {
    pub(crate) name: &'static str,
    pub(crate) script: &'static str,
    /// With how many connections.
    pub(crate) connections: &'static [usize],
    /// A statement whose answer is compared between the servers before anything is measured.
    pub(crate) judge: Option<&'static str>,
}

impl Question {
    /// Before rows are loaded.
    pub(crate) const SCHEMA: &'static str = "
        CREATE TABLE items (
            id int PRIMARY KEY, level int NOT NULL, amount double precision NOT NULL, name text NOT NULL
        );
        CREATE INDEX items_level ON items (level);
        CREATE TABLE inserted (client int, run int, number int, note text, PRIMARY KEY (run, client, number));";

    pub(crate) const ALL: &'static [Question] = &[
        Question {
            name: "SELECT by key",
            script: "\\set id random(1, :rows)\nSELECT name FROM items WHERE id = :id;\n",
            connections: &[1, 50],
            judge: Some("SELECT name FROM items WHERE id = 77"),
        },
        Question {
            name: "UPDATE by key",
            script: "\\set id random(1, :rows)\nUPDATE items SET amount = amount + 1 WHERE id = :id;\n",
            connections: &[1, 50],
            judge: None,
        },
        Question {
            name: "INSERT",
            script: "\\set number :number + 1\nINSERT INTO inserted VALUES (:client_id, :run, :number, 'a note');\n",
            connections: &[1, 50],
            judge: None,
        },
        Question {
            name: "count(*) of half the table",
            script: "SELECT count(*) FROM items WHERE id <= :half;\n",
            connections: &[1],
            judge: Some("SELECT count(*) FROM items WHERE id <= (SELECT max(id) / 2 FROM items)"),
        },
        Question {
            name: "count(*) of a range of an index",
            script: "SELECT count(*) FROM items WHERE level BETWEEN 100 AND 599;\n",
            connections: &[1],
            judge: Some("SELECT count(*) FROM items WHERE level BETWEEN 100 AND 599"),
        },
        Question {
            name: "OFFSET half, LIMIT 10",
            script: "SELECT id, name FROM items ORDER BY id LIMIT 10 OFFSET :half;\n",
            connections: &[1],
            judge: Some("SELECT id, name FROM items ORDER BY id LIMIT 10 OFFSET (SELECT count(*) / 2 FROM items)"),
        },
        Question {
            name: "median by an index",
            script: "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY level) FROM items;\n",
            connections: &[1],
            judge: Some("SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY level) FROM items"),
        },
        Question {
            name: "GROUP BY an index, counted",
            script: "SELECT level, count(*) FROM items WHERE level < 20 GROUP BY level ORDER BY level;\n",
            connections: &[1],
            judge: Some("SELECT level, count(*) FROM items WHERE level < 20 GROUP BY level ORDER BY level"),
        },
    ];

    /// Conditions that `pgbench`'s own transactions keep: the four sums are one.
    pub(crate) const SUMS: &'static str = "
        SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(delta) FROM pgbench_history)
           AND (SELECT sum(tbalance) FROM pgbench_tellers) = (SELECT sum(delta) FROM pgbench_history)
           AND (SELECT sum(bbalance) FROM pgbench_branches) = (SELECT sum(delta) FROM pgbench_history)";
}
