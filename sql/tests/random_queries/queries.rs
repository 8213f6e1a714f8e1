//! Random queries: a FROM with joins of all kinds, and what stands around it.

use super::draw::{Draw, Family, Kind};
use super::expressions::{Item, Scope, items_of};
use super::schema::{Schema, Table};

/// A query, and whether the order of its rows is determined.
#[derive(Clone, Debug)]
pub(super) struct Query {
    pub(super) text: String,
    pub(super) is_ordered: bool,
    /// The same query, whose rows no key has in their order.
    pub(super) sorted: Option<String>,
}

impl Query {
    fn new(text: String, is_ordered: bool) -> Query {
        Query { text, is_ordered, sorted: None }
    }
}

/// The items of a FROM clause.
#[derive(Clone, Debug)]
pub(super) struct From {
    /// Common table expressions that it reads.
    pub(super) with: String,
    pub(super) text: String,
    pub(super) items: Vec<Item>,
    /// The tables, their conditions, if it joins tables by conditions alone, and so is their filtered product.
    pub(super) product: Option<(Vec<String>, Vec<String>)>,
}

struct Maker<'m> {
    tables: &'m [Table],
    names: usize,
    with: Vec<String>,
}

/// An item of FROM: what it reads, its columns, and the tables and conditions of which it is the product.
struct Part {
    text: String,
    items: Vec<Item>,
    product: Option<(Vec<String>, Vec<String>)>,
}

impl Maker<'_> {
    fn alias(&mut self) -> String {
        self.names += 1;
        format!("x{}", self.names)
    }

    fn scope<'s>(&'s self, items: &[Item]) -> Scope<'s> {
        Scope { items: items.to_vec(), tables: self.tables }
    }

    /// A table, a sub-select or another source of rows, which may see `outer`.
    fn leaf(&mut self, draw: &mut Draw, outer: &[Item]) -> Part {
        let table = self.tables[draw.below(self.tables.len())].clone();
        let alias = self.alias();
        let inner = items_of(&table, "y");
        match draw.below(20) {
            0 | 1 => {
                let filter = self.scope(&inner).predicate(draw, 1);
                let text = format!("(SELECT * FROM {} y WHERE {filter}) {alias}", table.name);
                Part { text, items: items_of(&table, &alias), product: None }
            }
            2 => {
                let (value, kind) = self.scope(&inner).any(draw, 1);
                // PostgreSQL groups by no constant.
                let value = if value.contains("y.") { value } else { "y.id + 1".to_owned() };
                let kind = if value == "y.id + 1" { Kind::Int } else { kind };
                let text =
                    format!("(SELECT {value} AS v, count(*) AS n FROM {} y GROUP BY {value}) {alias}", table.name);
                let items = vec![
                    Item { text: format!("{alias}.v"), kind },
                    Item { text: format!("{alias}.n"), kind: Kind::Big },
                ];
                Part { text, items, product: None }
            }
            3 => {
                let text = format!("(VALUES (1, 'a'), (2, NULL), (NULL, 'b')) {alias}(v, w)");
                let items = vec![
                    Item { text: format!("{alias}.v"), kind: Kind::Int },
                    Item { text: format!("{alias}.w"), kind: Kind::Text },
                ];
                Part { text, items, product: None }
            }
            4 => {
                let text = format!("generate_series(0, {}) {alias}(v)", draw.below(4));
                Part { text, items: vec![Item { text: format!("{alias}.v"), kind: Kind::Int }], product: None }
            }
            5 => {
                let name = format!("w{}", self.names);
                let filter = self.scope(&inner).predicate(draw, 1);
                let materialized = draw.pick(&["", "", "MATERIALIZED ", "NOT MATERIALIZED "]);
                self.with.push(format!("{name} AS {materialized}(SELECT * FROM {} y WHERE {filter})", table.name));
                Part { text: format!("{name} {alias}"), items: items_of(&table, &alias), product: None }
            }
            6 | 7 if !outer.is_empty() => {
                let mut seen = inner.clone();
                seen.extend(outer.iter().cloned());
                let filter = self.scope(&seen).predicate(draw, 1);
                let (name, limit) = (&table.name, if draw.chance(30) { " ORDER BY id LIMIT 2" } else { "" });
                let text = format!("LATERAL (SELECT * FROM {name} y WHERE {filter}{limit}) {alias}");
                Part { text, items: items_of(&table, &alias), product: None }
            }
            _ => {
                let text = format!("{} {alias}", table.name);
                Part { items: items_of(&table, &alias), product: Some((vec![text.clone()], Vec::new())), text }
            }
        }
    }

    /// A condition between two items: most often an equality.
    fn condition(&self, draw: &mut Draw, left: &[Item], right: &[Item]) -> String {
        let mut parts = Vec::new();
        for _ in 0..1 + draw.below(2) {
            let first = &left[draw.below(left.len())];
            let fitting: Vec<&Item> = right.iter().filter(|item| item.kind.family() == first.kind.family()).collect();
            if !fitting.is_empty() {
                let second = fitting[draw.below(fitting.len())];
                let how = draw.pick(&["=", "=", "=", "=", "=", "=", "<", ">="]);
                match draw.chance(50) {
                    true => parts.push(format!("{} {how} {}", first.text, second.text)),
                    false => parts.push(format!("{} {how} {}", second.text, first.text)),
                }
            }
        }
        if parts.is_empty() || draw.chance(30) {
            let items: Vec<Item> = left.iter().chain(right).cloned().collect();
            parts.push(self.scope(&items).predicate(draw, 1));
        }
        parts.join(" AND ")
    }

    /// Joins of so many items.
    fn tree(&mut self, draw: &mut Draw, count: usize, outer: &[Item]) -> Part {
        if count <= 1 {
            return self.leaf(draw, outer);
        }
        let right_count = if draw.chance(25) { 1 + draw.below(count - 1) } else { 1 };
        let left = self.tree(draw, count - right_count, outer);
        let kind = draw.below(20);
        // A lateral item may stand on the right of an inner or a left join.
        let mut seen = outer.to_vec();
        if kind < 12 {
            seen.extend(left.items.iter().cloned());
        }
        let right = self.tree(draw, right_count, &seen);
        let is_plain = right_count == 1;
        let right_text = if is_plain { right.text.clone() } else { format!("({})", right.text) };
        let items: Vec<Item> = left.items.iter().chain(&right.items).cloned().collect();
        let (left_text, mut product) = (left.text.clone(), None);
        let shared = self.shared(&left, &right);
        let text = match kind {
            0..=5 => {
                let on = self.condition(draw, &left.items, &right.items);
                if let (Some((mut tables, mut conditions)), Some((others, more))) = (left.product, right.product) {
                    tables.extend(others);
                    conditions.extend(more);
                    conditions.push(on.clone());
                    product = Some((tables, conditions));
                }
                format!("{left_text} {} {right_text} ON {on}", draw.pick(&["JOIN", "INNER JOIN"]))
            }
            6 => {
                if let (Some((mut tables, mut conditions)), Some((others, more))) = (left.product, right.product) {
                    tables.extend(others);
                    conditions.extend(more);
                    product = Some((tables, conditions));
                }
                format!("{left_text} CROSS JOIN {right_text}")
            }
            12..=14 => {
                let on = self.condition(draw, &left.items, &right.items);
                format!("{left_text} RIGHT JOIN {right_text} ON {on}")
            }
            15 | 16 => {
                // A FULL JOIN of PostgreSQL takes equalities alone.
                let pair = left.items.iter().flat_map(|one| right.items.iter().map(move |two| (one, two)));
                match pair.clone().find(|(one, two)| one.kind.family() == two.kind.family() && one.kind == two.kind) {
                    Some((one, two)) => format!("{left_text} FULL JOIN {right_text} ON {} = {}", one.text, two.text),
                    None => format!("{left_text} LEFT JOIN {right_text} ON true"),
                }
            }
            17..=19 if !shared.is_empty() => {
                let kind = draw.pick(&["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]);
                match draw.below(3) {
                    0 => format!("{left_text} NATURAL {kind} {right_text}"),
                    _ => format!("{left_text} {kind} {right_text} USING ({})", draw.some(&shared, 2).join(", ")),
                }
            }
            _ => {
                let on = self.condition(draw, &left.items, &right.items);
                format!("{left_text} LEFT JOIN {right_text} ON {on}")
            }
        };
        Part { text, items, product }
    }

    /// Names of columns that two single items share. Others may have a name twice.
    fn shared(&self, left: &Part, right: &Part) -> Vec<String> {
        let split = |item: &Item| {
            let (alias, name) = item.text.split_once('.').unwrap_or_default();
            (alias.to_owned(), name.to_owned(), item.kind.family())
        };
        let all = |part: &Part| part.items.iter().map(split).collect::<Vec<_>>();
        let (left, right) = (all(left), all(right));
        let is_single = |part: &[(String, String, Family)]| part.iter().all(|item| item.0 == part[0].0);
        if !is_single(&left) || !is_single(&right) {
            return Vec::new();
        }
        // NATURAL compares all columns of one name, so they must have one family.
        if left.iter().any(|one| right.iter().any(|two| one.1 == two.1 && one.2 != two.2)) {
            return Vec::new();
        }
        let both = |one: &&(String, String, Family)| right.iter().any(|two| one.1 == two.1);
        left.iter().filter(both).map(|one| one.1.clone()).collect()
    }
}

/// A random FROM.
pub(super) fn from(draw: &mut Draw, schema: &Schema) -> From {
    let mut maker = Maker { tables: &schema.tables, names: 0, with: Vec::new() };
    let count = draw.one_of(&[1, 1, 2, 2, 2, 3, 3, 4]);
    let mut groups = 1;
    if count > 1 && draw.chance(35) {
        groups = 2 + draw.below(count - 1);
    }
    let (mut texts, mut items, mut product) = (Vec::new(), Vec::new(), Some((Vec::new(), Vec::new())));
    for group in 0..groups {
        let size = count / groups + usize::from(group < count % groups);
        let part = maker.tree(draw, size, &items);
        texts.push(part.text);
        items.extend(part.items);
        product = match (product, part.product) {
            (Some((mut tables, mut conditions)), Some((others, more))) => {
                tables.extend(others);
                conditions.extend(more);
                Some((tables, conditions))
            }
            _ => None,
        };
    }
    let with = if maker.with.is_empty() { String::new() } else { format!("WITH {} ", maker.with.join(", ")) };
    From { with, text: texts.join(", "), items, product }
}

/// A predicate over a FROM: most often with an equality between its items, so that few rows remain.
pub(super) fn filter(draw: &mut Draw, schema: &Schema, from: &From) -> String {
    let scope = Scope { items: from.items.clone(), tables: &schema.tables };
    let predicate = scope.predicate(draw, 2);
    if draw.chance(50) {
        let maker = Maker { tables: &schema.tables, names: 0, with: Vec::new() };
        return format!("{} AND ({predicate})", maker.condition(draw, &from.items, &from.items));
    }
    predicate
}

const AGGREGATES: [(&str, &[Family]); 8] = [
    ("count", &[Family::Number, Family::Text, Family::Bool, Family::Moment]),
    ("sum", &[Family::Number]),
    ("min", &[Family::Number, Family::Text, Family::Moment]),
    ("max", &[Family::Number, Family::Text, Family::Moment]),
    ("avg", &[Family::Number]),
    ("bool_and", &[Family::Bool]),
    ("bool_or", &[Family::Bool]),
    ("count", &[Family::Number, Family::Text]),
];

/// An aggregate whose value does not depend on the order of its rows.
pub(super) fn aggregate(draw: &mut Draw, scope: &Scope<'_>) -> String {
    if draw.chance(25) {
        return "count(*)".to_owned();
    }
    let (name, families) = draw.one_of(&AGGREGATES);
    let family = draw.one_of(families);
    let value = scope.value(draw, family, 1);
    let distinct = if draw.chance(15) { "DISTINCT " } else { "" };
    let filter = match draw.chance(10) {
        true => format!(" FILTER (WHERE {})", scope.predicate(draw, 0)),
        false => String::new(),
    };
    format!("{name}({distinct}{value}){filter}")
}

/// A random query.
pub(super) fn query(draw: &mut Draw, schema: &Schema) -> Query {
    if draw.chance(12) {
        return set_operation(draw, schema);
    }
    let from = from(draw, schema);
    let scope = Scope { items: from.items.clone(), tables: &schema.tables };
    let condition = match draw.chance(75) {
        true => format!(" WHERE {}", filter(draw, schema, &from)),
        false => String::new(),
    };
    let source = format!("FROM {}{condition}", from.text);
    let with = &from.with;
    match draw.below(10) {
        0 => {
            let list: Vec<String> = (0..1 + draw.below(3)).map(|_| aggregate(draw, &scope)).collect();
            Query::new(format!("{with}SELECT {} {source}", list.join(", ")), true)
        }
        1 | 2 => grouped(draw, &scope, with, &source),
        3 => windowed(draw, &scope, with, &source),
        4 => Query::new(format!("{with}SELECT * {source}"), false),
        _ => {
            let list: Vec<String> = (0..1 + draw.below(4)).map(|_| scope.any(draw, 1).0).collect();
            let distinct = if draw.chance(20) { "DISTINCT " } else { "" };
            let text = format!("{with}SELECT {distinct}{} {source}", list.join(", "));
            ordered(draw, text, list.len())
        }
    }
}

/// Adds ORDER BY with all columns, and LIMIT and OFFSET, to some queries.
fn ordered(draw: &mut Draw, text: String, columns: usize) -> Query {
    if draw.chance(50) {
        return Query::new(text, false);
    }
    let mut numbers: Vec<usize> = (1..=columns).collect();
    numbers = draw.some(&numbers, columns);
    let rest: Vec<usize> = (1..=columns).filter(|number| !numbers.contains(number)).collect();
    numbers.extend(rest);
    let mut sort =
        |number: &usize| format!("{number}{}", draw.pick(&["", "", " DESC", " ASC NULLS FIRST", " DESC NULLS LAST"]));
    let sort: Vec<String> = numbers.iter().map(&mut sort).collect();
    let mut order = format!(" ORDER BY {}", sort.join(", "));
    if draw.chance(50) {
        order.push_str(&format!(" LIMIT {}", draw.below(6)));
    }
    if draw.chance(35) {
        order.push_str(&format!(" OFFSET {}", draw.below(5)));
    }
    let sorted = Some(format!("SELECT * FROM ({text}) q{order}"));
    Query { text: text + &order, is_ordered: true, sorted }
}

fn grouped(draw: &mut Draw, scope: &Scope<'_>, with: &str, source: &str) -> Query {
    let depth = draw.below(2);
    let mut keys: Vec<String> = Vec::new();
    for _ in 0..1 + draw.below(3) {
        let key = match scope.items.is_empty() {
            true => scope.any(draw, 0).0,
            false => match depth {
                0 => scope.items[draw.below(scope.items.len())].text.clone(),
                _ => format!("coalesce({0}, {0})", scope.items[draw.below(scope.items.len())].text),
            },
        };
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let how = match draw.below(10) {
        0 => format!("ROLLUP ({})", keys.join(", ")),
        1 => format!("CUBE ({})", keys.join(", ")),
        2 => format!("GROUPING SETS (({}), ({}), ())", keys.join(", "), keys[0]),
        _ => keys.join(", "),
    };
    let mut list = keys.clone();
    for _ in 0..1 + draw.below(2) {
        list.push(aggregate(draw, scope));
    }
    let having = match draw.below(4) {
        0 => format!(" HAVING count(*) {} {}", draw.pick(&[">", "<", "="]), draw.below(3)),
        1 => format!(" HAVING {} IS NOT NULL", keys[0]),
        _ => String::new(),
    };
    let text = format!("{with}SELECT {} {source} GROUP BY {how}{having}", list.join(", "));
    // PostgreSQL 15 forgets to sort by a column that has one value, though grouping sets give it NULL as well.
    if how.contains('(') {
        return Query::new(text, false);
    }
    ordered(draw, text, list.len())
}

/// A query of all kinds of aggregates over one table.
pub(super) fn aggregates(draw: &mut Draw, schema: &Schema) -> Query {
    let table = &schema.tables[draw.below(schema.tables.len())];
    let columns = &table.columns;
    let mut list = Vec::new();
    for _ in 0..2 + draw.below(4) {
        let column = &columns[draw.below(columns.len())];
        let (name, other) = (column.name, columns[draw.below(columns.len())].name);
        let any = draw.pick(&[
            "count(DISTINCT {})",
            "array_agg({} ORDER BY {}, id)",
            "array_agg(DISTINCT {})",
            "string_agg({}::text, ',' ORDER BY id, {})",
            "string_agg(DISTINCT {}::text, '-')",
            "json_agg({} ORDER BY id, {})",
            "jsonb_agg({} ORDER BY {})",
            "json_object_agg(id, {} ORDER BY id, {})",
            "jsonb_object_agg({}::text, 1) FILTER (WHERE {} IS NOT NULL)",
            "mode() WITHIN GROUP (ORDER BY {})",
            "percentile_disc(0.5) WITHIN GROUP (ORDER BY {})",
            "percentile_disc(0.9) WITHIN GROUP (ORDER BY {} DESC)",
            "percentile_disc(array[0, 0.3, 1]) WITHIN GROUP (ORDER BY {})",
        ]);
        let special = match column.kind {
            Kind::Small | Kind::Int | Kind::Big => draw.pick(&[
                "sum({})",
                "avg({})",
                "bit_and({})",
                "bit_or({})",
                "bit_xor({})",
                "stddev({})",
                "stddev_pop({})",
                "variance({})",
                "var_pop({})",
                "var_samp({})",
                "min({})",
                "max({})",
                "sum(DISTINCT {})",
                "regr_count({}, id)",
                "regr_avgx({}, id)",
                "regr_avgy({}, id)",
                "percentile_cont(0.3) WITHIN GROUP (ORDER BY {})",
                "percentile_cont(array[0.1, 0.5]) WITHIN GROUP (ORDER BY {})",
            ]),
            Kind::Numeric => draw.pick(&[
                "sum({})",
                "avg({})",
                "stddev_samp({})",
                "stddev_pop({})",
                "var_samp({})",
                "var_pop({})",
                "min({})",
                "max({})",
                "avg(DISTINCT {})",
            ]),
            Kind::Float => draw.pick(&[
                "sum({})",
                "avg({})",
                "min({})",
                "max({})",
                "percentile_cont(0.5) WITHIN GROUP (ORDER BY {})",
            ]),
            Kind::Bool => draw.pick(&["bool_and({})", "bool_or({})", "every({})"]),
            _ => draw.pick(&["min({})", "max({})"]),
        };
        let text = if draw.chance(40) { any } else { special };
        let mut text = text.replace("{}", name);
        if draw.chance(15) && !text.contains("FILTER") {
            text.push_str(&format!(" FILTER (WHERE {other} IS NOT NULL)"));
        }
        list.push(text);
    }
    let name = &table.name;
    let column = columns[draw.below(columns.len())].name;
    let text = match draw.chance(50) {
        true => format!("SELECT {} FROM {name}", list.join(", ")),
        false => format!("SELECT {column}, {} FROM {name} GROUP BY {column}", list.join(", ")),
    };
    Query::new(text, false)
}

fn windowed(draw: &mut Draw, scope: &Scope<'_>, with: &str, source: &str) -> Query {
    let all: Vec<String> = scope.items.iter().map(|item| item.text.clone()).collect();
    let partition = match draw.chance(60) {
        true => format!("PARTITION BY {} ", all[draw.below(all.len())]),
        false => String::new(),
    };
    let some = draw.some(&all, 2).join(", ");
    let call = match draw.below(10) {
        0 => format!("rank() OVER ({partition}ORDER BY {some})"),
        1 => format!("dense_rank() OVER ({partition}ORDER BY {some} DESC)"),
        2 => format!("{} OVER ({partition})", aggregate(draw, scope).replace("(DISTINCT ", "(")),
        3 => format!("{} OVER ({partition}ORDER BY {some})", aggregate(draw, scope).replace("(DISTINCT ", "(")),
        // Rows that are equal in all columns may stand in any order.
        4 => format!("row_number() OVER ({partition}ORDER BY {})", all.join(", ")),
        5 => format!("lag({}) OVER ({partition}ORDER BY {})", all[draw.below(all.len())], all.join(", ")),
        6 => format!("first_value({}) OVER ({partition}ORDER BY {})", all[draw.below(all.len())], all.join(", ")),
        7 => {
            let frame = draw.pick(&[
                "1 PRECEDING AND 1 FOLLOWING",
                "UNBOUNDED PRECEDING AND 1 FOLLOWING",
                "2 PRECEDING AND 1 PRECEDING",
            ]);
            format!("count({}) OVER ({partition}ORDER BY {} ROWS BETWEEN {frame})", all[0], all.join(", "))
        }
        8 => format!("ntile(3) OVER ({partition}ORDER BY {})", all.join(", ")),
        _ => format!("percent_rank() OVER ({partition}ORDER BY {some})"),
    };
    let text = format!("{with}SELECT {}, {call} {source}", all.join(", "));
    ordered(draw, text, all.len() + 1)
}

fn set_operation(draw: &mut Draw, schema: &Schema) -> Query {
    let families: Vec<Family> = (0..1 + draw.below(2))
        .map(|_| draw.one_of(&[Family::Number, Family::Number, Family::Text, Family::Moment]))
        .collect();
    let side = |draw: &mut Draw| {
        let from = from(draw, schema);
        let scope = Scope { items: from.items.clone(), tables: &schema.tables };
        // Of equal numbers with more and fewer zeros, any one may stay.
        let value = |family: &Family| match (family, scope.value(draw, *family, 1)) {
            (Family::Number, value) => format!("({value})::float8"),
            (_, value) => value,
        };
        let list: Vec<String> = families.iter().map(value).collect();
        format!("({}SELECT {} FROM {} WHERE {})", from.with, list.join(", "), from.text, filter(draw, schema, &from))
    };
    let mut text = side(draw);
    for _ in 0..1 + draw.below(2) {
        let how = draw.pick(&["UNION", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"]);
        text = format!("{text} {how} {}", side(draw));
    }
    ordered(draw, text, families.len())
}
