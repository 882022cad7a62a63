//! Constraints that were made before: a server's requests have the same tools again and again.

use std::sync::{Arc, Mutex, PoisonError};

use super::{Constraint, Request};
use crate::error::Result;

/// Most constraints that are kept.
const MAX_ENTRIES: usize = 16;

/// Most bytes of what a constraint that is kept was made from: tools, a schema, and the beginning of the answer.
const MAX_BYTES: usize = 256 << 10;

/// The constraints that were asked for last, the newest at the end.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    entries: Mutex<Vec<(Request, Arc<Constraint>)>>,
}

impl Cache {
    /// The constraint of a request: a kept one, or one that `make` makes.
    pub(super) fn get_or_make(
        &self,
        request: Request,
        make: impl FnOnce(&Request) -> Result<Constraint>,
    ) -> Result<Arc<Constraint>> {
        if let Some(known) = self.get(&request) {
            return Ok(known);
        }
        let new = Arc::new(make(&request)?);
        if request.bytes() <= MAX_BYTES {
            self.add(request, new.clone());
        }
        Ok(new)
    }

    fn get(&self, request: &Request) -> Option<Arc<Constraint>> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let at = entries.iter().rposition(|(known, _)| known == request)?;
        let entry = entries.remove(at);
        let known = entry.1.clone();
        entries.push(entry);
        Some(known)
    }

    fn add(&self, request: Request, new: Arc<Constraint>) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() == MAX_ENTRIES {
            entries.remove(0);
        }
        entries.push((request, new));
    }
}

impl Request {
    /// The size of what it holds, in bytes.
    fn bytes(&self) -> usize {
        let answer = self.answer.as_ref().map_or(0, |answer| answer.bytes);
        self.tools.bytes + answer + self.opened.bytes()
    }
}
