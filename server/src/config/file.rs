//! The configuration file: TOML, names as on the command line, and users with their rules.
//!
//! ```toml
//! port = 6379
//! data = "air"
//! durability = "os"
//! bind = ["127.0.0.1", "10.0.0.5"]
//!
//! [users]
//! default = "on >secret ~* &* +@all"
//! reader  = "on nopass ~public:* +@read"
//! ```
//!
//! `CONFIG REWRITE` puts what was changed into its place there, and leaves comments and order.

use std::ops::Range;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use toml_edit::{Document, DocumentMut, Item, Table, Value, value};

use super::{Config, Rejected};

/// Reads a file into a configuration. Returns the names that stand there.
///
/// # Errors
/// A text that names the file, the line, and the key.
pub fn read(config: &mut Config, path: &Path) -> Result<Vec<String>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let at = |span: Option<Range<usize>>| {
        let start = span.map_or(0, |span| span.start).min(text.len());
        let line = text.as_bytes()[..start].iter().filter(|byte| **byte == b'\n').count() + 1;
        format!("{}:{line}", path.display())
    };
    let document = Document::parse(text.as_str()).map_err(|error| {
        let why = error.message().replace('\n', ", ");
        format!("{}: {why}; the file is TOML, as in `port = 6379`, and no redis.conf", at(error.span()))
    })?;
    let mut names = Vec::new();
    for (name, _) in document.as_table().iter() {
        let Some((key, item)) = document.as_table().get_key_value(name) else { continue };
        let here = || format!("{}, key `{name}`", at(key.span()));
        if name == "users" {
            let users =
                item.as_table_like().ok_or_else(|| format!("{}: it is not a table of names and rules", here()))?;
            for (user, rules) in users.iter() {
                let rules = rules.as_str().ok_or_else(|| format!("{}: the rules of `{user}` are not text", here()))?;
                crate::users::rules::check(rules).map_err(|error| format!("{}: user `{user}`: {error}", here()))?;
                config.users.push((user.to_owned(), rules.to_owned()));
            }
            continue;
        }
        let text =
            plain(item).ok_or_else(|| format!("{}: a text, a number, yes or no, or a list is wanted", here()))?;
        config.set(name, &text).map_err(|rejected| match rejected {
            Rejected::Unknown => format!("{}: no such setting; `quipu serve --help` lists them", here()),
            Rejected::Because(why) => format!("{}: {why}", here()),
        })?;
        names.push(name.to_owned());
    }
    config.file = Some(path.to_owned());
    Ok(names)
}

/// A value as it stands on a command line.
fn plain(item: &Item) -> Option<String> {
    let one = |value: &Value| match value {
        Value::String(text) => Some(text.value().clone()),
        Value::Integer(number) => Some(number.value().to_string()),
        Value::Boolean(flag) => Some(if *flag.value() { "yes" } else { "no" }.to_owned()),
        Value::Float(number) => Some(number.value().to_string()),
        _ => None,
    };
    match item.as_value()? {
        Value::Array(list) => Some(list.iter().map(one).collect::<Option<Vec<_>>>()?.join(" ")),
        value => one(value),
    }
}

/// Writes what has changed since the start into the file, and all users if `users` has some.
///
/// # Errors
/// A text that says what failed.
pub fn rewrite(config: &Config, path: &Path, users: &[(String, String)]) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("Rewriting config file: {error}");
    let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
    let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| failed(&error.message()))?;
    for (name, kept) in config.parameters.changed() {
        let new = match kept.parse::<i64>() {
            Ok(number) => value(number),
            Err(_) => value(kept),
        };
        put_beside_comments(document.entry(name).or_insert(value("")), new);
    }
    if !users.is_empty() {
        let table = document.entry("users").or_insert_with(|| Item::Table(Table::new()));
        let table = table.as_table_like_mut().ok_or_else(|| failed(&"`users` is not a table"))?;
        let gone = |name: &str| !users.iter().any(|(known, _)| known == name);
        let gone: Vec<String> =
            table.iter().map(|(name, _)| name).filter(|name| gone(name)).map(str::to_owned).collect();
        gone.iter().for_each(|name| drop(table.remove(name)));
        for (name, rules) in users {
            put_beside_comments(table.entry(name).or_insert(value("")), value(rules.as_str()));
        }
    }
    let new_path = path.with_extension("toml.new");
    write(&new_path, &document.to_string(), path)
        .and_then(|()| std::fs::rename(&new_path, path))
        .map_err(|error| failed(&error))
}

/// Puts a value into the place of another, whose comments stay.
fn put_beside_comments(place: &mut Item, new: Item) {
    let decor = place.as_value().map(|old| old.decor().clone());
    *place = new;
    if let (Some(decor), Some(value)) = (decor, place.as_value_mut()) {
        *value.decor_mut() = decor;
    }
}

fn write(path: &Path, text: &str, old: &Path) -> std::io::Result<()> {
    use std::io::Write;
    // It may have passwords: a user who could not read the old one cannot read this one, from the start.
    let permissions = std::fs::metadata(old)?.permissions();
    let _ = std::fs::remove_file(path);
    let mut file =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(permissions.mode() & 0o7777).open(path)?;
    file.set_permissions(permissions)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "a file of a test")]
    fn put(path: &Path, text: &str) {
        std::fs::write(path, text).expect("a file");
    }

    fn file(text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("quipu.toml");
        put(&path, text);
        (directory, path)
    }

    #[test]
    fn values_are_read() {
        let (_directory, path) =
            file("port = 7000\nbind = [\"127.0.0.1\", \"::1\"]\ndurability = \"os\"\nsave = \"\"\nappendonly = true\n");
        let mut config = Config::default();
        read(&mut config, &path).expect("a configuration");
        assert_eq!((config.port, config.bind.len(), config.durability()), (Some(7000), 2, quipu::Durability::Os));
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        for (text, place) in [
            ("port = 7000\nprot = 1\n", "quipu.toml:2, key `prot`: no such setting"),
            ("\n\nport = 70000\n", "quipu.toml:3, key `port`: argument must be between 0 and 65535 inclusive"),
            ("port = \n", "quipu.toml:1: "),
            ("maxmemory 100mb\n", "the file is TOML, as in `port = 6379`, and no redis.conf"),
            ("[users]\nbob = 1\n", "quipu.toml:1, key `users`: the rules of `bob` are not text"),
            ("[users]\nbob = \"on +nosuch\"\n", "user `bob`: Error in ACL SETUSER modifier '+nosuch'"),
        ] {
            let (_directory, path) = file(text);
            let error = read(&mut Config::default(), &path).expect_err(text);
            assert!(error.contains(place), "{error}");
        }
    }

    #[test]
    fn a_rewrite_leaves_comments_at_users_and_after_values() {
        let (_directory, path) = file(
            "maxclients = 5 # few\n\n# who may what\n[users] # all of them\n\
             # the boss\nal = \"on nopass\" # on\nbo = \"off\"\n",
        );
        let mut config = Config::default();
        read(&mut config, &path).expect("a configuration");
        config.parameters.set("maxclients", "77".to_owned());
        let pair = |name: &str, rules: &str| (name.to_owned(), rules.to_owned());
        rewrite(&config, &path, &[pair("al", "off"), pair("cy", "on")]).expect("written");
        assert_eq!(
            std::fs::read_to_string(&path).expect("a file"),
            "maxclients = 77 # few\n\n# who may what\n[users] # all of them\n\
             # the boss\nal = \"off\" # on\ncy = \"on\"\n"
        );
    }

    #[test]
    fn a_rewritten_file_is_for_no_more_eyes_than_before() {
        let (_directory, path) = file("maxclients = 5\n");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("permissions");
        let mut config = Config::default();
        read(&mut config, &path).expect("a configuration");
        config.parameters.set("requirepass", "secret".to_owned());
        rewrite(&config, &path, &[]).expect("written");
        assert_eq!(std::fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_rewrite_leaves_comments() {
        let (_directory, path) = file("# mine\nport = 7000 # here\nmaxclients = 5\n");
        let mut config = Config::default();
        read(&mut config, &path).expect("a configuration");
        config.parameters.set("maxclients", "77".to_owned());
        rewrite(&config, &path, &[("default".to_owned(), "on nopass ~* &* +@all".to_owned())]).expect("written");
        let text = std::fs::read_to_string(&path).expect("a file");
        assert_eq!(
            text,
            "# mine\nport = 7000 # here\nmaxclients = 77\n\n[users]\ndefault = \"on nopass ~* &* +@all\"\n"
        );
    }
}
