//! One settings file as a document: JSON in which comments are allowed, read with places and
//! changed without touching what else stands in it.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "the home of settings files")]

use super::SettingsError;
use jsonc_parser::{
    CollectOptions, ParseOptions, ast,
    common::Ranged as _,
    cst::{CstInputValue, CstObject, CstRootNode},
    parse_to_ast,
};
use ostler_proto::{Json, Settings};
use std::{
    fs::{File, OpenOptions},
    io::{ErrorKind, Read as _, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

/// Longer files are not settings.
const MAX_BYTES: u64 = 4 * 1024 * 1024;
/// Deeper nesting is not settings.
const MAX_DEPTH: usize = 64;

/// The text of a file; `None` when there is none.
pub(super) fn text(path: &Path) -> Result<Option<String>, SettingsError> {
    let failed = |error| SettingsError::Io { path: path.to_path_buf(), error };
    let file = match OpenOptions::new().read(true).custom_flags(nonblocking()).open(path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(failed(error)),
    };
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(failed(std::io::Error::other("it is not a regular file")));
    }
    let mut text = String::new();
    let read = file.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if read as u64 > MAX_BYTES {
        return Err(failed(std::io::Error::other("it is too long for settings")));
    }
    Ok(Some(text))
}

/// A pipe in the place of a file must not stop the start.
fn nonblocking() -> i32 {
    i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default()
}

/// Reads a text as a JSON object. `place` is how errors call it.
pub(super) fn parse(place: &str, text: &str) -> Result<Json, SettingsError> {
    if text.trim().is_empty() {
        return Ok(Json::Object(serde_json::Map::new()));
    }
    if depth(text) > MAX_DEPTH {
        return Err(wrong(place, "it is nested too deeply for settings"));
    }
    let tree = tree(place, text)?;
    match tree {
        Some(object @ ast::Value::Object(_)) => Ok(object.into()),
        Some(_) | None => Err(wrong(place, "settings are a JSON object, in braces")),
    }
}

/// Reads settings out of JSON that came from `text`, so that errors can name the line.
pub(super) fn typed(place: &str, text: &str, json: &Json) -> Result<Settings, SettingsError> {
    serde_path_to_error::deserialize(json).map_err(|error| {
        let key = error.path().to_string();
        located(place, text, format!("key '{key}': {}", error.into_inner()))
    })
}

/// A problem that begins with its key, with the key's line.
pub(super) fn located(place: &str, text: &str, problem: String) -> SettingsError {
    let key = problem.strip_prefix("key '").and_then(|rest| rest.split_once('\'')).map(|(key, _)| key);
    let at = key.and_then(|key| Some(offset(&tree(place, text).ok()??, key)));
    let place = at.map_or_else(|| place.to_owned(), |at| placed(place, text, at));
    SettingsError::Wrong { place, problem }
}

/// Sets a key, given by its path, in a file that may not exist yet; `None` removes it. Comments,
/// order and everything else stay; two writers at once lose nothing.
pub fn set(path: &Path, key: &str, value: Option<&Json>) -> Result<(), SettingsError> {
    change(path, key, |_| value.cloned())
}

/// As [`set`], by what stands there now.
pub fn change(
    path: &Path,
    key: &str,
    new_value: impl FnOnce(Option<&Json>) -> Option<Json>,
) -> Result<(), SettingsError> {
    let failed = |error| SettingsError::Io { path: path.to_path_buf(), error };
    let folder = path.parent().ok_or_else(|| failed(ErrorKind::InvalidInput.into()))?;
    std::fs::create_dir_all(folder).map_err(failed)?;
    // The lock is beside the file, because the file itself is replaced.
    let lock = File::create(folder.join(".settings.lock")).map_err(failed)?;
    lock.lock().map_err(failed)?;
    let old = text(path)?.unwrap_or_default();
    let place = path.display().to_string();
    let json = parse(&place, &old)?;
    let value = new_value(key.split('.').try_fold(&json, |json, name| json.get(name)));
    let new = changed(&place, &old, key, value.as_ref())?;
    // What the next start would refuse is not written.
    super::check(&place, &new)?;
    if path.file_name().is_some_and(|name| name == "settings.local.json") {
        keep_from_git(folder).map_err(failed)?;
    }
    replace(path, folder, new.as_bytes()).map_err(failed)
}

/// What one person set for a project is not to be committed with it. A list that is there is left alone.
fn keep_from_git(folder: &Path) -> std::io::Result<()> {
    let list = OpenOptions::new().write(true).create_new(true).open(folder.join(".gitignore"));
    match list {
        Ok(mut list) => list.write_all(b"settings.local.json\n.settings.lock\n.gitignore\n"),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

fn changed(place: &str, text: &str, key: &str, value: Option<&Json>) -> Result<String, SettingsError> {
    let source = if text.trim().is_empty() { "{\n}\n" } else { text };
    let root = CstRootNode::parse(source, &options()).map_err(|error| wrong(place, &error.to_string()))?;
    let names: Vec<&str> = key.split('.').collect();
    let Some((last, parents)) = names.split_last() else { return Ok(text.to_owned()) };
    let mut object: CstObject = root.object_value_or_set();
    for name in parents {
        object = match object.object_value(name) {
            Some(inner) => inner,
            None if value.is_none() => return Ok(text.to_owned()),
            None => object.object_value_or_set(name),
        };
    }
    match (object.get(last), value) {
        (Some(property), Some(value)) => property.set_value(input(value)),
        (Some(property), None) => property.remove(),
        (None, Some(value)) => drop(object.append(last, input(value))),
        (None, None) => {}
    }
    Ok(root.to_string())
}

fn input(value: &Json) -> CstInputValue {
    match value {
        Json::Null => CstInputValue::Null,
        Json::Bool(value) => CstInputValue::Bool(*value),
        Json::Number(number) => CstInputValue::Number(number.to_string()),
        Json::String(text) => CstInputValue::String(text.clone()),
        Json::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Json::Object(fields) => {
            CstInputValue::Object(fields.iter().map(|(name, value)| (name.clone(), input(value))).collect())
        }
    }
}

/// Puts a new content in the file's place: whole or not at all, with the old file's permissions.
fn replace(path: &Path, folder: &Path, bytes: &[u8]) -> std::io::Result<()> {
    // A linked file stays linked: its target is replaced.
    let target = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let mode = target.metadata().map_or(0o600, |metadata| metadata.permissions().mode() & 0o777);
    let folder = target.parent().unwrap_or(folder);
    let temporary = folder.join(format!(".settings-{:016x}", fastrand::u64(..)));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&temporary)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        })
        .and_then(|()| std::fs::rename(&temporary, &target));
    if written.is_err() {
        // What could not be written whole is of no use; that it stays would be no worse.
        let _ = std::fs::remove_file(&temporary);
    }
    written?;
    File::open(folder)?.sync_all()
}

fn options() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

fn tree<'a>(place: &str, text: &'a str) -> Result<Option<ast::Value<'a>>, SettingsError> {
    match parse_to_ast(text, &CollectOptions::default(), &options()) {
        Ok(parsed) => Ok(parsed.value),
        Err(error) => Err(SettingsError::Wrong {
            place: format!("{place}:{}:{}", error.line_display(), error.column_display()),
            problem: error.kind().to_string(),
        }),
    }
}

/// Where the value of a key begins, or of the deepest part of its path that is there.
fn offset(tree: &ast::Value<'_>, key: &str) -> usize {
    let mut node = tree;
    let path = key.replace('[', ".").replace(']', "");
    for part in path.split('.').filter(|part| !part.is_empty()) {
        let next = match node {
            ast::Value::Object(object) => object.get(part).map(|property| &property.value),
            ast::Value::Array(array) => {
                part.parse::<usize>().ok().and_then(|index| array.elements.get(index))
            }
            ast::Value::StringLit(_)
            | ast::Value::NumberLit(_)
            | ast::Value::BooleanLit(_)
            | ast::Value::NullKeyword(_) => None,
        };
        match next {
            Some(next) => node = next,
            None => break,
        }
    }
    node.range().start
}

fn placed(place: &str, text: &str, at: usize) -> String {
    let before = &text[..text.floor_char_boundary(at)];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!("{place}:{line}:{column}")
}

fn wrong(place: &str, problem: &str) -> SettingsError {
    SettingsError::Wrong { place: place.to_owned(), problem: problem.to_owned() }
}

/// How deep brackets are nested at most, quotes taken into account.
fn depth(text: &str) -> usize {
    let (mut depth, mut most, mut quoted, mut escaped) = (0usize, 0usize, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' | b'[' if !quoted => {
                depth += 1;
                most = most.max(depth);
            }
            b'}' | b']' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_the_next_start_would_refuse_is_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("settings.json");
        set(&path, "model", Some(&json!("opus"))).unwrap();
        let before = std::fs::read_to_string(&path).unwrap();
        for (key, value) in [
            ("permissions.allow", json!(["Bash("])),
            ("hooks", json!({"Stop": [{"hooks": [{"type": "command"}]}]})),
        ] {
            set(&path, key, Some(&value)).unwrap_err();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), before, "{key}");
        }
    }

    #[test]
    fn local_settings_are_kept_from_git() {
        let dir = tempfile::tempdir().unwrap();
        let list = dir.path().join(".gitignore");
        set(&dir.path().join("settings.json"), "model", Some(&json!("opus"))).unwrap();
        assert!(!list.exists(), "what a team shares is its own affair");
        set(&dir.path().join("settings.local.json"), "model", Some(&json!("opus"))).unwrap();
        assert!(std::fs::read_to_string(&list).unwrap().lines().any(|line| line == "settings.local.json"));
        std::fs::write(&list, "mine").unwrap();
        set(&dir.path().join("settings.local.json"), "model", Some(&json!("haiku"))).unwrap();
        assert_eq!(std::fs::read_to_string(&list).unwrap(), "mine");
    }

    #[test]
    fn a_change_keeps_comments_order_and_everything_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("settings.json");
        let before =
            "{\n  // mine\n  \"z\": 1,\n  \"permissions\": { \"allow\": [\"Read\"] /* few */ },\n}\n";
        std::fs::write(&path, before).unwrap();
        set(&path, "permissions.deny", Some(&json!(["Bash(rm *)"]))).unwrap();
        set(&path, "model", Some(&json!("opus"))).unwrap();
        let after = std::fs::read_to_string(&path).unwrap();
        for part in ["// mine", "\"z\": 1", "/* few */", "Bash(rm *)", "\"model\": \"opus\""] {
            assert!(after.contains(part), "{part} in {after}");
        }
        set(&path, "permissions.deny", None).unwrap();
        set(&path, "model", None).unwrap();
        let json = parse("f", &std::fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(json, json!({"z": 1, "permissions": {"allow": ["Read"]}}));
    }

    #[test]
    fn a_wrong_value_is_refused_and_the_file_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("settings.json");
        set(&path, "model", Some(&json!("a"))).unwrap();
        let before = std::fs::read(&path).unwrap();
        let error = set(&path, "permissions.allow", Some(&json!("Read"))).unwrap_err().to_string();
        assert!(error.contains("permissions.allow"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }

    #[test]
    fn writers_at_once_lose_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("settings.json");
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let path = &path;
                scope.spawn(move || {
                    for round in 0..10 {
                        set(path, &format!("env.V{writer}_{round}"), Some(&json!("x"))).unwrap();
                    }
                });
            }
        });
        let json = parse("f", &std::fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(json["env"].as_object().unwrap().len(), 80);
    }

    #[test]
    fn hostile_texts_are_errors() {
        for (text, part) in [
            ("[".repeat(100_000), "nested"),
            ("[1]".to_owned(), "object"),
            ("{\"a\": 0x10}".to_owned(), "f:1:"),
            ("{\"a\" 1}".to_owned(), "f:1:"),
            ("{'a': 1}".to_owned(), "f:1:"),
        ] {
            let error = parse("f", &text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
