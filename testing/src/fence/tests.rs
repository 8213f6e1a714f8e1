//! The fence sees what it is for.

use super::code::{code_of, uses};
use super::edges::Source;
use super::*;

fn source(files: &[(&str, &str)]) -> Source {
    Source::of(files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect())
}

fn edges(source: &Source) -> Vec<(&str, &str)> {
    source.edges.keys().map(|&(from, to)| (source.name(from), source.name(to))).collect()
}

#[test]
fn edges_of_each_kind_are_seen() {
    let found = source(&[
        ("lib", "mod a;\nmod b;\npub use b::deep::Deep;"),
        ("a", "use crate::b::{\n    mid::{self, Mid as Middle}, Passed};\nfn f() {}"),
        ("b/mod", "pub(crate) mod deep; pub mod mid;\npub(crate) use deep::Passed;\npub use mid::Mid;\n"),
        ("b/deep", "pub struct Passed;\npub struct Deep;\nfn g() { super::super::a::f() }"),
        ("b/mid", "pub struct Mid;\n"),
        ("c", "fn f(x: &crate::Deep) { x.far_away() }"),
        ("d", "use crate::b::deep::Deep;\nimpl Deep {\n    fn far_away(&self) {}\n}\n"),
        ("e", "#[cfg(test)]\nmod tests {\n    use crate::a;\n}"),
    ]);
    let expected = [
        ("a", "b/deep"), // by a name that the folder passes on
        ("a", "b/mid"),  // by a tree of names
        ("b/deep", "a"), // by a path upward
        ("c", "b/deep"), // by a path through the root
        ("c", "d"),      // by a method that stands apart from its type
        ("d", "b/deep"),
    ];
    assert_eq!(edges(&found), expected);
    assert_eq!(found.circles(), [[1, 3]]);
}

#[test]
fn a_folder_uses_what_it_names_within() {
    let found =
        source(&[("a/mod", "mod one;\nmod two;\nuse one::One;\nfn f() { two::g() }"), ("a/one", ""), ("a/two", "")]);
    assert_eq!(edges(&found), [("a/mod", "a/one"), ("a/mod", "a/two")]);
}

#[test]
fn comments_strings_and_characters_are_no_code() {
    let text = "a /* b /* c */ d */ e // f\n\"g\\\"h\" 'i' '\\'' '\"' &'j k r#\"l\"m\"# br\"n\" for_r\"o\"";
    let code: String = code_of(text).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(code, "a e \"\" ' ' ' ' ' ' &'j k \"\" \"\" for_r\"\"");
}

#[test]
fn trees_of_use_items_are_read() {
    let (found, left) = uses("mod x;\nuse a::{b, c::{self, d}, e as f};\n  pub(crate) use g::h;\nlet because = 1;\n");
    assert_eq!(found[0].paths, ["a::b", "a::c", "a::c::d", "a::e"]);
    assert!(!found[0].is_passed_on && found[1].is_passed_on);
    assert_eq!(left.split_whitespace().collect::<Vec<_>>().join(" "), "; pub(crate) ; let because = 1;");
}

const FENCE: Fence = Fence { layers: &[&["low"], &["b", "c"], &["top"]], ..Fence::around("") };

#[test]
fn arrows_up_and_aside_are_refused() {
    let found = source(&[
        ("low", "use crate::top::T;"),
        ("b", "use crate::low::L; use crate::c::C;"),
        ("c", "use crate::low::L;"),
        ("top", "use crate::b::B;"),
    ]);
    let wrong = FENCE.arrows(&found);
    assert_eq!(wrong, ["b must not use c: it names crate::c::C", "low must not use top: it names crate::top::T"]);
    assert_eq!(Fence { uses_beside: true, ..FENCE }.arrows(&found).len(), 1);
    let only = Fence { only: &[("top", "b", "b/one")], ..FENCE };
    assert_eq!(only.arrows(&found).len(), 3);
    let more = Fence { layers: &[&["low", "gone"], &["b", "c"]], ..FENCE };
    assert_eq!(more.arrows(&found).len(), 4, "two of files without a place, one of a place without files");
}

#[test]
fn banned_words_are_found() {
    let found =
        source(&[("a/mod", "use std::fs;"), ("a/b", "fn f() { std::fs::read() }"), ("ab", "std::fsx; my_std::fs")]);
    let banned = |banned| Fence { banned, ..FENCE }.banned(&found);
    assert_eq!(banned(&[(&["a"], &["std::fs"], &["a/b"])]), ["a/mod must not name std::fs"]);
    assert_eq!(banned(&[(&[], &["std::fs"], &["c"])]).len(), 2);
}

#[test]
fn circles_and_large_types_are_listed_with_their_sizes() {
    let found = source(&[
        ("a", "use crate::b::B;"),
        ("b", "use crate::c::C;"),
        ("c", "use crate::d::D;"),
        ("d", &format!("use crate::a::A;\nstruct D;\n\nimpl D {{\n{}}}\n", "    fn f() {}\n".repeat(41))),
    ]);
    let check = |circles, methods| {
        let fence = Fence { circles, methods, ..FENCE };
        (fence.circles(&found).len(), fence.methods(&found).len())
    };
    assert_eq!(check(&[], &[]), (1, 1));
    assert_eq!(check(&[("c", 4)], &[("D", 41)]), (0, 0));
    assert_eq!(check(&[("c", 5)], &[("D", 42)]), (1, 1));
    assert_eq!(check(&[("c", 4), ("x", 4)], &[("D", 41), ("E", 41)]), (1, 1));
}
