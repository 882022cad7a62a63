//! Findings about a file that the `tokenizers` library runs.
//!
//! In: a parsed file, and the error of our own engines. Out: [`Findings`]. Cost: linear in the file's components.

use serde_json::Value;
use serde_json::value::RawValue;

use super::file::File;
use crate::error::Error;
use crate::vocab::model::Findings;

/// Why our engines do not run a file.
pub(super) fn reason(error: &Error) -> String {
    error.to_string().replacen("vocabulary ", "", 1)
}

/// Findings about a file that our engines refused.
pub(super) fn of(file: &File<'_>, ours: &Error) -> Findings {
    let normalizer = names(file.normalizer);
    let pre_tokenizer = names(file.pre_tokenizer);
    let kind = file.model.kind();
    let mut losses = vec![format!(
        "the `tokenizers` library runs it: what its `{kind}` model has no token for is refused"
    )];
    if let Some(names) = &normalizer {
        losses.push(format!("the normalizer ({names}) may change text"));
    }
    if let Some(names) = &pre_tokenizer {
        losses.push(format!("the pre-tokenizer ({names}) may drop text"));
    }
    let told = |names: Option<String>, none: &str| names.unwrap_or_else(|| none.to_owned());
    Findings {
        normalizer: Some(told(normalizer, "nothing")),
        refused: Some(reason(ours)),
        losses,
        ..Findings::of_file(told(pre_tokenizer, "not at all"))
    }
}

/// The types of a component and of the components inside it, `None` without a component.
fn names(raw: Option<&RawValue>) -> Option<String> {
    let value: Value = serde_json::from_str(raw?.get()).ok()?;
    let mut found = Vec::new();
    collect(&value, &mut found);
    (!found.is_empty()).then(|| found.join(", "))
}

fn collect(component: &Value, found: &mut Vec<String>) {
    let inside = ["normalizers", "pretokenizers"].map(|key| component.get(key));
    let mut inside = inside.into_iter().flatten().filter_map(Value::as_array).flatten().peekable();
    match component.get("type").and_then(Value::as_str) {
        Some(name) if inside.peek().is_none() => found.push(name.to_owned()),
        _ => inside.for_each(|component| collect(component, found)),
    }
}
