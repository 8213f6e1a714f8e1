//! Rules for single pages: figures and names that stand in two places are the same in both.

use std::collections::BTreeSet;

use crate::house::{kept_files, root};

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The part of a page below a heading of the second level.
fn section<'t>(page: &'t str, heading: &str) -> &'t str {
    let (_, rest) = page.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no section {heading}"));
    rest.split("\n## ").next().unwrap_or_default()
}

/// The ranges that a text tells: `2.1 to 2.9`.
fn ranges_of(text: &str) -> BTreeSet<String> {
    let words: Vec<&str> = text.split_whitespace().map(|word| word.trim_matches(['(', ')', ';', ','])).collect();
    let is_figure = |word: &str| word.parse::<f64>().is_ok();
    let is_range = |three: &&[&str]| is_figure(three[0]) && three[1] == "to" && is_figure(three[2]);
    words.windows(3).filter(is_range).map(|three| three.join(" ")).collect()
}

/// Figures of SQL change with each measurement, and stand in two pages.
#[test]
fn figures_of_sql_in_the_comparison_are_those_of_the_first_page_of_benchmarks() {
    let (comparison, benchmarks) = (read("docs/comparison.md"), read("docs/benchmarks.md"));
    let row = comparison.lines().find(|line| line.starts_with("| PostgreSQL ")).expect("a row of PostgreSQL");
    let (compared, told) = (ranges_of(row), ranges_of(section(&benchmarks, "Results in one page")));
    assert!(compared.len() > 4, "the figures are not found: {compared:?}");
    let lost: Vec<&String> = compared.difference(&told).collect();
    assert!(lost.is_empty(), "docs/benchmarks.md does not tell these figures of docs/comparison.md: {lost:?}");
    let paragraph = benchmarks.split("\n\n").find(|text| text.starts_with("**SQL**")).expect("a paragraph of SQL");
    let lost: Vec<String> = ranges_of(paragraph).difference(&compared).cloned().collect();
    assert!(lost.is_empty(), "docs/comparison.md does not tell these figures of docs/benchmarks.md: {lost:?}");
}

/// What stands in backticks in a text.
fn code_of(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The names in the first cells of the rows of tables.
fn names_in_rows(text: &str) -> BTreeSet<&str> {
    let cells = text.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    cells.flat_map(code_of).collect()
}

#[test]
fn every_fuzz_target_has_a_row() {
    let (manifest, page) = (read("fuzz/Cargo.toml"), read("docs/internals/testing.md"));
    let binaries = manifest.split("[[bin]]").skip(1).filter_map(|binary| binary.split('"').nth(1));
    let targets: BTreeSet<&str> = binaries.collect();
    assert!(targets.len() > 10, "the targets are not found: {targets:?}");
    assert_eq!(names_in_rows(section(&page, "Fuzzing")), targets, "the table of docs/internals/testing.md");
}

/// The names of metrics that a source writes: whole literals, of which tests are no part.
fn metrics_of(source: &str) -> BTreeSet<&str> {
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    let is_name =
        |text: &&str| text.starts_with("quipu_") && text.chars().all(|char| char.is_ascii_lowercase() || char == '_');
    code.split('"').filter(is_name).collect()
}

#[test]
fn every_metric_has_a_row() {
    let page = read("docs/http.md");
    let sources: Vec<String> = kept_files(&root(), "rs")
        .into_iter()
        .filter(|name| name.starts_with("server/src/http/"))
        .map(|name| read(&name))
        .collect();
    let written: BTreeSet<String> = sources.iter().flat_map(|source| metrics_of(source)).map(str::to_owned).collect();
    assert!(written.len() > 80, "the metrics are not found: {written:?}");
    // What a metric is divided by stands in braces. That of a cluster stands there without its prefix.
    let bare = |name: &str| name.split('{').next().unwrap_or_default().to_owned();
    let (page, cluster) = page.split_once("\n### Metrics of a cluster\n").expect("a section of the cluster's metrics");
    let (cluster, rest) = cluster.split_once("\n## ").expect("a section after it");
    let of_cluster = names_in_rows(cluster).into_iter().filter(|name| !name.starts_with("quipu_"));
    let of_node = [page, rest].into_iter().flat_map(names_in_rows).filter(|name| name.starts_with("quipu_"));
    let told: BTreeSet<String> =
        of_cluster.map(|name| format!("quipu_cluster_{}", bare(name))).chain(of_node.map(bare)).collect();
    let lost: Vec<&String> = written.difference(&told).collect();
    assert!(lost.is_empty(), "docs/http.md has no row of these metrics: {lost:#?}");
    let gone: Vec<&String> = told.difference(&written).collect();
    assert!(gone.is_empty(), "these metrics of docs/http.md are not written: {gone:#?}");
}
