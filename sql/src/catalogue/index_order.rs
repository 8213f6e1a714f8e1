//! The order of an index's columns as it is declared, beside ascending and descending: a collation, a class of
//! operators, where NULLs stand. All collations and classes that are taken sort as rows do, so this is only shown.

use std::fmt;

/// What was declared of the order of a column. Its text is `COLLATE "C" text_pattern_ops NULLS FIRST`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// The collation.
    pub collation: Option<String>,
    /// The class of operators.
    pub class: Option<String>,
    /// Whether NULLs stand first.
    pub nulls_first: Option<bool>,
}

impl Order {
    /// The order that a text says.
    pub fn of(text: &str) -> Order {
        let mut order = Order::default();
        let mut words = text.split_whitespace();
        while let Some(word) = words.next() {
            match word {
                "COLLATE" => order.collation = words.next().map(|name| name.trim_matches('"').to_owned()),
                "NULLS" => order.nulls_first = words.next().map(|place| place == "FIRST"),
                class => order.class = Some(class.to_owned()),
            }
        }
        order
    }

    /// Whether nothing was declared.
    pub fn is_empty(&self) -> bool {
        *self == Order::default()
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let collation = self.collation.as_ref().map(|name| format!("COLLATE \"{name}\""));
        let nulls = self.nulls_first.map(|first| if first { "NULLS FIRST" } else { "NULLS LAST" }.to_owned());
        let parts: Vec<String> = [collation, self.class.clone(), nulls].into_iter().flatten().collect();
        f.write_str(&parts.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_read_as_it_is_written() {
        for text in ["", "COLLATE \"C\"", "text_pattern_ops", "COLLATE \"POSIX\" varchar_pattern_ops NULLS LAST"] {
            assert_eq!(Order::of(text).to_string(), text);
        }
        assert!(Order::of(" ").is_empty());
    }
}
