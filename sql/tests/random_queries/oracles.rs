//! Questions whose answers must fit each other, without another database to ask.

use super::draw::Draw;
use super::expressions::{Scope, items_of};
use super::queries::{From, Query, aggregate, filter, from, query};
use super::schema::Schema;
use super::world::{Outcome, World};

/// A database with all indexes, and one without.
pub(super) struct Worlds {
    pub(super) indexed: World,
    pub(super) plain: World,
}

/// A question: `None` if the answers fit, or what does not.
pub(super) type Oracle = Box<dyn Fn(&Worlds) -> Option<String>>;

fn differ(first: &str, one: &Outcome, second: &str, other: &Outcome) -> Option<String> {
    (one != other || matches!(one, Outcome::Error(_)))
        .then(|| format!("{first}\n  gives {one:?}\n{second}\n  gives {other:?}"))
}

/// A random question.
pub(super) fn oracle(draw: &mut Draw, schema: &Schema) -> Oracle {
    match draw.below(8) {
        0..=2 => twins(query(draw, schema)),
        3 => {
            let from = from(draw, schema);
            no_optimization(&from, &filter(draw, schema, &from))
        }
        4 | 5 => {
            let from = from(draw, schema);
            let filter = filter(draw, schema, &from);
            partitions(draw, schema, &from, &filter)
        }
        6 => pages(draw, schema),
        _ => counts(draw, schema),
    }
}

/// The same query with and without indexes, simple and prepared, with hardly any memory, and with rows that are sorted
/// in any case.
fn twins(query: Query) -> Oracle {
    Box::new(move |worlds| {
        let in_order = |outcome: Outcome| if query.is_ordered { outcome } else { outcome.sorted() };
        let plain = in_order(worlds.plain.run(&query.text, false));
        let indexed = in_order(worlds.indexed.run(&query.text, false));
        let prepared = in_order(worlds.indexed.run(&query.text, true));
        let with_files = in_order(worlds.indexed.run_with_files(&query.text));
        // Not all that is kept can be in a file.
        let is_refused = with_files == Outcome::Error("53200".to_owned());
        differ(&query.text, &plain, "with indexes", &indexed)
            .or_else(|| differ(&query.text, &indexed, "prepared", &prepared))
            .or_else(|| if is_refused { None } else { differ(&query.text, &indexed, "with files", &with_files) })
            .or_else(|| {
                let sorted = query.sorted.as_ref()?;
                differ(&query.text, &plain, sorted, &worlds.plain.run(sorted, false))
            })
    })
}

/// NoREC: the rows that a filter leaves are as many as the rows for which it is true.
fn no_optimization(from: &From, filter: &str) -> Oracle {
    let filtered = format!("{}SELECT count(*) FROM {} WHERE {filter}", from.with, from.text);
    let (source, condition) = match &from.product {
        Some((tables, conditions)) => {
            let all: Vec<String> = conditions.iter().map(|condition| format!("({condition}) AND ")).collect();
            (tables.join(", "), format!("{}({filter})", all.concat()))
        }
        None => (from.text.clone(), filter.to_owned()),
    };
    let sum = format!("{}SELECT coalesce(sum(CASE WHEN {condition} THEN 1 ELSE 0 END), 0) FROM {source}", from.with);
    Box::new(move |worlds| {
        differ(&filtered, &worlds.indexed.run(&filtered, false), &sum, &worlds.indexed.run(&sum, false))
    })
}

/// TLP: the rows for which a filter is true, false and unknown are all rows.
fn partitions(draw: &mut Draw, schema: &Schema, from: &From, filter: &str) -> Oracle {
    let scope = Scope { items: from.items.clone(), tables: &schema.tables };
    let parts = [format!("({filter})"), format!("NOT ({filter})"), format!("({filter}) IS NULL")];
    let list: Vec<String> = scope.items.iter().map(|item| item.text.clone()).collect();
    let (with, source) = (&from.with, &from.text);
    let column = &list[draw.below(list.len())];
    let union = |how: &str, select: &str, end: &str| {
        let each: Vec<String> =
            parts.iter().map(|part| format!("(SELECT {select} FROM {source} WHERE {part}{end})")).collect();
        each.join(how)
    };
    let (whole, parted) = match draw.below(5) {
        0 => {
            let whole = format!("{with}SELECT DISTINCT {column} FROM {source}");
            (whole, format!("{with}{}", union(" UNION ", column, "")))
        }
        1 => {
            let whole = format!(
                "{with}SELECT count(*), count({column}), min({column}::text), max({column}::text) FROM {source}"
            );
            let select =
                format!("count(*) AS n, count({column}) AS m, min({column}::text) AS l, max({column}::text) AS h");
            let parted = union(" UNION ALL ", &select, "");
            (whole, format!("{with}SELECT sum(n), sum(m), min(l), max(h) FROM ({parted}) parts"))
        }
        2 => {
            let whole = format!("{with}SELECT {column}, count(*) FROM {source} GROUP BY {column}");
            let parted = union(" UNION ALL ", &format!("{column} AS k, count(*) AS n"), &format!(" GROUP BY {column}"));
            (whole, format!("{with}SELECT k, sum(n) FROM ({parted}) parts GROUP BY k"))
        }
        3 => {
            let having =
                format!("{} > {}", aggregate(draw, &scope).replace("bool_and", "count").replace("bool_or", "count"), 1);
            let having = match having.starts_with("min") || having.starts_with("max") {
                true => "count(*) > 1".to_owned(),
                false => having,
            };
            let select = format!("{with}SELECT {column} FROM {source} GROUP BY {column}");
            let each: Vec<String> = [format!("({having})"), format!("NOT ({having})"), format!("({having}) IS NULL")]
                .iter()
                .map(|part| format!("(SELECT {column} FROM {source} GROUP BY {column} HAVING {part})"))
                .collect();
            (select, format!("{with}{}", each.join(" UNION ALL ")))
        }
        _ => {
            let list = list.join(", ");
            (format!("{with}SELECT {list} FROM {source}"), format!("{with}{}", union(" UNION ALL ", &list, "")))
        }
    };
    Box::new(move |worlds| {
        let (one, other) = (worlds.indexed.run(&whole, false), worlds.indexed.run(&parted, false));
        differ(&whole, &one.sorted(), &parted, &other.sorted())
    })
}

/// LIMIT and OFFSET give the rows that stand there in the whole.
fn pages(draw: &mut Draw, schema: &Schema) -> Oracle {
    let table = &schema.tables[draw.below(schema.tables.len())];
    let scope = Scope { items: items_of(table, &table.name), tables: &schema.tables };
    let filter = if draw.chance(50) { format!(" WHERE {}", scope.predicate(draw, 1)) } else { String::new() };
    let mut sort = Vec::new();
    for item in draw.some(&scope.items, 3) {
        sort.push(format!("{}{}", item.text, draw.pick(&["", "", " DESC", " NULLS FIRST", " DESC NULLS LAST"])));
    }
    sort.push(if draw.chance(50) { "id".to_owned() } else { "id DESC".to_owned() });
    let list: Vec<String> = scope.items.iter().map(|item| item.text.clone()).collect();
    let select = if draw.chance(50) { "id".to_owned() } else { list.join(", ") };
    let whole = format!("SELECT {select} FROM {}{filter} ORDER BY {}", table.name, sort.join(", "));
    let (limit, offset) = (draw.below(5), draw.below(8));
    Box::new(move |worlds| {
        let page = format!("{whole} LIMIT {limit} OFFSET {offset}");
        let (all, some) = (worlds.indexed.run(&whole, false), worlds.indexed.run(&page, false));
        let plain = worlds.plain.run(&whole, false);
        let expected = match all.clone() {
            Outcome::Done { rows, tag } => {
                Outcome::Done { rows: rows.into_iter().skip(offset).take(limit).collect(), tag }
            }
            error @ Outcome::Error(_) => error,
        };
        differ(&whole, &expected, &page, &some).or_else(|| differ(&whole, &plain, "with indexes", &all))
    })
}

/// The numbers of rows that trees, plans and scans give are the same.
fn counts(draw: &mut Draw, schema: &Schema) -> Oracle {
    let table = &schema.tables[draw.below(schema.tables.len())];
    let scope = Scope { items: items_of(table, &table.name), tables: &schema.tables };
    let filter = if draw.chance(90) { format!(" WHERE {}", scope.predicate(draw, 1)) } else { String::new() };
    let counted = format!("SELECT count(*) FROM {}{filter}", table.name);
    let listed = format!("SELECT * FROM {}{filter}", table.name);
    Box::new(move |worlds| {
        let rows = match worlds.plain.run(&listed, false) {
            Outcome::Done { rows, .. } => rows.len(),
            Outcome::Error(error) => return Some(format!("{listed}\n  gives {error}")),
        };
        let expected = Outcome::Done { rows: vec![rows.to_string()], tag: String::new() };
        for (world, name) in [(&worlds.indexed, "with indexes"), (&worlds.plain, "without")] {
            let given = world.run(&counted, false);
            if let Some(difference) = differ(&counted, &given, name, &expected) {
                return Some(difference);
            }
            let Outcome::Done { rows: lines, .. } = world.run(&format!("EXPLAIN {listed}"), false) else { continue };
            let [line] = lines.as_slice() else { continue };
            let told = line.split("(counted rows=").nth(1).map(|rest| rest.trim_end_matches(')').to_owned());
            if told.as_ref().is_some_and(|told| *told != rows.to_string()) {
                return Some(format!("EXPLAIN {listed}\n  says {line}\n  for {rows} rows, {name}"));
            }
        }
        None
    })
}
