//! Any regular expression as a splitter, bounded: patterns come out of files that nobody vouches for.
//!
//! Look-around needs backtracking, which is linear for patterns as vocabularies have them and
//! exponential for hostile ones. A match may take [`MAX_STEPS`] steps back. Where one takes more, the
//! rest of the text stays in one piece: no text is lost, and the ids decode to it as any others do.

use crate::error::{Error, Result};

/// Real patterns have some hundred bytes.
const MAX_PATTERN_BYTES: usize = 16 << 10;
/// What a compiled pattern may weigh.
const MAX_COMPILED_BYTES: usize = 4 << 20;
/// How many steps back one match may take.
const MAX_STEPS: usize = 1 << 17;

#[derive(Debug, Clone)]
pub(crate) struct Regex(fancy_regex::Regex);

impl Regex {
    pub(super) fn new(pattern: &str) -> Result<Self> {
        if pattern.len() > MAX_PATTERN_BYTES {
            let problem = format!("has a pattern longer than {MAX_PATTERN_BYTES} bytes");
            return Err(Error::vocab("pre_tokenizer", problem));
        }
        let regex = fancy_regex::RegexBuilder::new(pattern)
            .backtrack_limit(MAX_STEPS)
            .delegate_size_limit(MAX_COMPILED_BYTES)
            .delegate_dfa_size_limit(MAX_COMPILED_BYTES)
            .build();
        regex.map(Self).map_err(|error| {
            let problem = format!("has a pattern that is no regular expression: {error}");
            Error::vocab("pre_tokenizer", problem)
        })
    }

    /// Calls `each` with the matches and what lies between them.
    pub(super) fn split<'a>(&self, text: &'a str, each: &mut dyn FnMut(&'a str)) {
        let mut done = 0;
        let mut from = 0;
        while let Ok(Some(found)) = self.0.find_from_pos(text, from) {
            from = found.end();
            if found.start() == found.end() {
                // Nothing is matched here: on after the next character.
                let Some(next) = text[from..].chars().next() else { break };
                from += next.len_utf8();
                continue;
            }
            if done < found.start() {
                each(&text[done..found.start()]);
            }
            each(found.as_str());
            done = found.end();
        }
        if done < text.len() {
            each(&text[done..]);
        }
    }
}
