//! Constraints that were made before: a server's requests have the same tools again and again.

use std::sync::{Arc, Mutex, PoisonError};

use super::ebnf::Texts;
use super::{Asked, Constraint};
use crate::error::Result;

/// Most constraints that are kept.
const MAX_ENTRIES: usize = 16;

/// Most bytes of what a constraint that is kept was made from: tools, a schema, and the beginning of the answer.
const MAX_BYTES: usize = 256 << 10;

/// The constraints that were asked for last, the newest at the end.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    entries: Mutex<Vec<(Asked, Arc<Constraint>)>>,
    /// The texts that spell no control token, for GBNF.
    pub(super) texts: Arc<Texts>,
}

impl Cache {
    /// The constraint of a request: a kept one, or one that `make` makes.
    pub(super) fn get_or_make(
        &self,
        asked: Asked,
        make: impl FnOnce(&Asked) -> Result<Constraint>,
    ) -> Result<Arc<Constraint>> {
        if let Some(known) = self.get(&asked) {
            return Ok(known);
        }
        let new = Arc::new(make(&asked)?);
        if asked.bytes() <= MAX_BYTES {
            self.add(asked, new.clone());
        }
        Ok(new)
    }

    fn get(&self, asked: &Asked) -> Option<Arc<Constraint>> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let at = entries.iter().rposition(|(known, _)| known == asked)?;
        let entry = entries.remove(at);
        let known = entry.1.clone();
        entries.push(entry);
        Some(known)
    }

    fn add(&self, asked: Asked, new: Arc<Constraint>) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() == MAX_ENTRIES {
            entries.remove(0);
        }
        entries.push((asked, new));
    }
}

impl Asked {
    /// The size of what it holds, in bytes.
    fn bytes(&self) -> usize {
        self.tools.len() + self.answer.len() + self.opened.bytes()
    }
}
