//! A format without the parts whose tokens a vocabulary lacks: plain chat on a model that was not
//! trained on calls.
//!
//! In: the keys of a format file, and the control tokens that a vocabulary lacks. Out: the keys without the
//! patterns that need these tokens, and without the keys that depend on them. The result is checked like
//! any file; parts that every conversation needs cannot be left out.

use std::collections::BTreeSet;

use toml::{Table, Value};

/// The keys that hold patterns, themselves or in tables.
const WITH_PATTERNS: [&str; 14] = [
    "begin",
    "end",
    "generation",
    "turn",
    "last",
    "after_tool",
    "named",
    "frame",
    "answer",
    "calls",
    "results",
    "call",
    "also",
    "media",
];

/// The tokens and fields that patterns can no longer contain.
#[derive(Default)]
struct Lost<'a> {
    control: &'a [String],
    calls: bool,
    tools: bool,
}

/// Fields of some conversations only: a pattern that needs one of them may be left out.
const OPTIONAL: [&str; 6] = ["{calls}", "{reasoning", "{tools}", "{system", "{name}", "{id}"];

/// Removes from a file the parts that need one of these control tokens, given by their names. Returns
/// whether a conversation without calls, results, tools and reasoning is written as before. With `calls`,
/// removes all calls.
pub(super) fn reduce(file: &mut Table, missing: &[String], calls: bool) -> bool {
    let has_tools = has(file, "turn", "tools");
    let frames = |file: &Table| {
        let ends = |key| ["open", "close"].map(|end| has(file, key, end));
        (ends("calls"), ends("results"))
    };
    let missing = &with_tags(file, missing);
    if needs_any(file, missing) {
        return false;
    }
    let (list, results) = frames(file);
    let answers = answers(file);
    let mut gone = Lost { control: missing, ..Lost::default() };
    reduce_patterns(file, &gone);
    let (list_left, results_left) = frames(file);
    gone.calls = reduce_calls(file, calls || list != list_left);
    if results != results_left || answers != self::answers(file) || !has(file, "turn", "tool") {
        remove_results(file);
    }
    gone.tools = gone.calls || (has_tools && !has(file, "turn", "tools"));
    if gone.calls || gone.tools {
        reduce_patterns(file, &gone);
    }
    if gone.tools {
        file.remove("tools");
        remove(file, "turn", "tools");
        remove(file, "place", "tools");
    }
    let mut used = BTreeSet::new();
    let patterns = WITH_PATTERNS.iter().filter_map(|key| file.get(*key));
    patterns.for_each(|value| names(value, &mut used));
    if !used.contains("reasoning") {
        file.remove("reasoning");
        remove(file, "generation", "thinking");
        remove(file, "generation", "no_thinking");
    }
    let is_kept = |name: &str, used: &BTreeSet<String>| {
        used.contains(name) && !missing.iter().any(|lost| lost == name)
    };
    if let Some(tags) = table_mut(file, "tag") {
        tags.retain(|name, _| is_kept(name, &used));
        tags.values().for_each(|tag| names(tag, &mut used));
    }
    for key in ["control", "text"] {
        let Some(tokens) = table_mut(file, key) else { continue };
        tokens.retain(|name, _| is_kept(name, &used));
    }
    true
}

/// The number of rows for the message after a result.
fn answers(file: &Table) -> usize {
    match table(file, "after_tool").and_then(|rows| rows.get("assistant")) {
        Some(Value::Array(rows)) => rows.len(),
        rows => usize::from(rows.is_some()),
    }
}

/// The names of missing tokens, and of the tags that have one of them.
fn with_tags(file: &Table, missing: &[String]) -> Vec<String> {
    let mut all = missing.to_vec();
    let lost = Lost { control: missing, ..Lost::default() };
    for (name, tag) in table(file, "tag").into_iter().flatten() {
        if !keep(&mut tag.clone(), &lost) {
            all.push(name.clone());
        }
    }
    all
}

/// Whether a plain conversation is written with one of these tokens.
fn needs_any(file: &Table, missing: &[String]) -> bool {
    let lost = Lost { control: missing, ..Lost::default() };
    let is_plain = |text: &&str| !OPTIONAL.iter().any(|field| without_guards(text).contains(field));
    let any = |value: Option<&Value>| {
        let items = match value {
            Some(Value::Array(items)) => &items[..],
            Some(value) => std::slice::from_ref(value),
            None => &[],
        };
        // The first pattern for a plain message writes it; the others only read.
        let first = items.iter().filter_map(Value::as_str).find(is_plain);
        first.is_some_and(|text| pattern(text, &lost).is_none())
    };
    let inner = |key: &str, inner: &str| file.get(key).and_then(|table| table.get(inner));
    any(file.get("begin"))
        || any(file.get("end"))
        || any(inner("generation", "prompt"))
        || ["begin", "system", "without_system", "user", "assistant"]
            .iter()
            .any(|role| any(inner("turn", role)))
        || any(inner("last", "assistant"))
}

/// A pattern without its optional parts.
fn without_guards(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("{?") {
        out.push_str(&rest[..at]);
        if let Some((_, _, after)) = guard(&rest[at..]) {
            rest = after;
        } else {
            out.push_str("{?");
            rest = &rest[at + 2..];
        }
    }
    out.push_str(rest);
    out
}

/// Removes calls without patterns, and all calls if the pattern around a list is removed. Returns whether
/// the format has lost all its calls.
fn reduce_calls(file: &mut Table, list_is_lost: bool) -> bool {
    if let Some(also) = table_mut(file, "also") {
        also.retain(|_, way| way.get("item").is_some());
    }
    let Some(calls) = table_mut(file, "call") else { return false };
    let had_calls = !calls.is_empty();
    calls.retain(|_, call| call.get("item").is_some());
    let is_lost = had_calls && (calls.is_empty() || list_is_lost);
    if is_lost {
        file.remove("call");
        file.remove("calls");
        file.remove("also");
    }
    is_lost
}

/// Removes results, and the messages that contain them.
fn remove_results(file: &mut Table) {
    file.remove("results");
    file.remove("after_tool");
    remove(file, "turn", "tool");
    if let Some(losses) = file.get_mut("losses").and_then(Value::as_array_mut) {
        losses.retain(|loss| loss.as_str() != Some("results"));
    }
    for (_, named) in table_mut(file, "named").into_iter().flatten() {
        if let Some(named) = named.as_table_mut() {
            named.remove("tool");
        }
    }
}

fn reduce_patterns(file: &mut Table, lost: &Lost<'_>) {
    reduce_stop(file, lost);
    file.retain(|key, value| !WITH_PATTERNS.contains(&key) || keep(value, lost));
}

/// Removes missing tokens from the tokens that stop a model, which no pattern writes.
fn reduce_stop(file: &mut Table, lost: &Lost<'_>) {
    let Some(Value::String(stop)) =
        table_mut(file, "generation").and_then(|generation| generation.get_mut("stop"))
    else {
        return;
    };
    let names = stop.trim_matches(['{', '}']).split('|');
    let kept: Vec<&str> = names.filter(|name| !lost.control.iter().any(|l| l == name)).collect();
    if kept.is_empty() {
        remove(file, "generation", "stop");
    } else {
        *stop = format!("{{{}}}", kept.join("|"));
    }
}

/// Removes missing tokens from the patterns of a value; returns whether anything is left of it.
fn keep(value: &mut Value, lost: &Lost<'_>) -> bool {
    match value {
        Value::String(text) => match pattern(text, lost) {
            Some(reduced) => {
                *text = reduced;
                true
            }
            None => false,
        },
        Value::Array(items) => {
            items.retain_mut(|item| keep(item, lost));
            !items.is_empty()
        }
        Value::Table(inner) => {
            // A pair needs both its parts.
            let before = inner.get("pair").is_some();
            inner.retain(|_, value| keep(value, lost));
            if before && inner.get("pair").is_none() {
                inner.remove("item");
            }
            true
        }
        _ => true,
    }
}

/// A pattern without optional parts and alternatives of missing tokens; `None` if it needs one of
/// these tokens.
fn pattern(text: &str, lost: &Lost<'_>) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some((field, inside, after)) = guard(rest) {
            let is_lost = (field == "calls" && lost.calls) || (field == "tools" && lost.tools);
            if let Some(inside) = pattern(inside, lost).filter(|_| !is_lost) {
                out.extend(["{?", field, ":", &inside, "?}"]);
            }
            rest = after;
            continue;
        }
        let (hole, after) = match rest[1..].split_once('}') {
            Some((hole, after)) if is_hole(hole) => (hole, after),
            _ => {
                out.push('{');
                rest = &rest[1..];
                continue;
            }
        };
        let is_known = |name: &&str| !lost.control.iter().any(|lost| lost == name);
        let kept: Vec<&str> = hole.split('|').filter(is_known).collect();
        // The first of several is written.
        let is_lost = kept.first().copied() != hole.split('|').next()
            || (lost.calls && matches!(hole, "calls" | "call"))
            || (lost.tools && hole == "tools");
        if is_lost {
            return None;
        }
        out.extend(["{", &kept.join("|"), "}"]);
        rest = after;
    }
    out.push_str(rest);
    Some(out)
}

/// An optional part at the beginning of a text: its field, its content, and the text after it.
fn guard(text: &str) -> Option<(&str, &str, &str)> {
    let (field, rest) = text.strip_prefix("{?")?.split_once(':')?;
    if !is_hole(field) {
        return None;
    }
    let mut depth = 0;
    for (at, _) in rest.char_indices() {
        if rest[at..].starts_with("{?") {
            depth += 1;
        } else if rest[at..].starts_with("?}") {
            if depth == 0 {
                return Some((field, &rest[..at], &rest[at + 2..]));
            }
            depth -= 1;
        }
    }
    None
}

/// Whether the content of braces may be a name.
fn is_hole(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_|:".contains(&byte);
    !text.is_empty() && text.bytes().all(is_part)
}

/// The names in the patterns of a value: control tokens and fields.
fn names(value: &Value, used: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => {
            let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            used.extend(words.map(str::to_owned));
        }
        Value::Array(items) => items.iter().for_each(|item| names(item, used)),
        Value::Table(inner) => inner.values().for_each(|value| names(value, used)),
        _ => {}
    }
}

fn table<'a>(file: &'a Table, key: &str) -> Option<&'a Table> {
    file.get(key).and_then(Value::as_table)
}

fn table_mut<'a>(file: &'a mut Table, key: &str) -> Option<&'a mut Table> {
    file.get_mut(key).and_then(Value::as_table_mut)
}

fn has(file: &Table, key: &str, inner: &str) -> bool {
    table(file, key).is_some_and(|table| table.contains_key(inner))
}

fn remove(file: &mut Table, key: &str, inner: &str) {
    if let Some(table) = table_mut(file, key) {
        table.remove(inner);
    }
}
