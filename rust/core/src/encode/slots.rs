//! The caller's texts in what was written, by their paths.

use std::ops::Range;

use hashbrown::HashMap;

use super::{Encoding, path_of};
use crate::render::Rendered;
use crate::span::{SourceField, Span, SpanKind};
use crate::template::Paths;

/// One of the caller's texts, as far as it is written.
#[derive(Debug, Clone, Default)]
pub(crate) struct Slot {
    pub(crate) text: String,
    /// From its first id to its last; of what is not encoded, none.
    pub(crate) tokens: Range<usize>,
    pub(crate) message: i32,
}

/// The caller's texts in what a template wrote.
pub(crate) fn slots_of(rendered: &Rendered) -> HashMap<String, Slot> {
    slots(&rendered.text, &rendered.spans, rendered.paths.as_deref(), &|_| 0)
}

/// Texts of calls are left out: a model's are one text, a template's one for each argument.
fn slots(
    text: &str,
    spans: &[Span],
    paths: Option<&Paths>,
    id_at: &dyn Fn(usize) -> usize,
) -> HashMap<String, Slot> {
    let mut slots: HashMap<String, Slot> = HashMap::new();
    for span in spans {
        let path = match span.source.field {
            _ if !matches!(span.kind, SpanKind::Slot { .. }) || span.text.is_empty() => continue,
            SourceField::Content | SourceField::Path(_) => path_of(paths, span.source),
            SourceField::Reasoning => {
                format!("messages[{}].reasoning_content", span.source.message)
            }
            _ => continue,
        };
        if path.contains(".tool_calls[") {
            continue;
        }
        let slot = slots.entry(path).or_insert_with(|| Slot {
            tokens: id_at(span.text.start)..0,
            message: span.source.message,
            ..Slot::default()
        });
        slot.text.push_str(&text[span.text.clone()]);
        slot.tokens.end = id_at(span.text.end - 1) + 1;
    }
    slots
}

impl Encoding {
    /// The caller's texts.
    pub(crate) fn slots(&self) -> HashMap<String, Slot> {
        let ends: Vec<usize> = self.offsets().into_iter().map(|(_, end)| end).collect();
        let id_at = |byte: usize| ends.partition_point(|end| *end <= byte);
        slots(&self.text, &self.spans, self.paths.as_deref(), &id_at)
    }

    /// The first id that ends after a byte of the text.
    pub(crate) fn id_at(&self, byte: usize) -> usize {
        self.offsets().partition_point(|(_, end)| *end <= byte)
    }

    /// Lets the sources lead into another table of paths, which has all of these.
    pub(crate) fn lead_to(&mut self, paths: &std::sync::Arc<Paths>) {
        let Some(before) = self.paths.replace(paths.clone()) else { return };
        let mut known: Option<HashMap<String, u32>> = None;
        for span in &mut self.spans {
            let SourceField::Path(path) = span.source.field else { continue };
            let text = before.text(path);
            if paths.text(path) == text {
                continue;
            }
            let known = known.get_or_insert_with(|| {
                (0..paths.len() as u32).map(|path| (paths.text(path), path)).collect()
            });
            span.source.field =
                known.get(&text).map_or(SourceField::Scaffold, |path| SourceField::Path(*path));
        }
    }
}
