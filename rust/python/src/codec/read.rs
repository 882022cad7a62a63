//! Ids to messages: streams and whole completions.

use chatcodec::{MarkerPolicy, Stream as CoreStream};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyString};

use super::Codec;
use crate::away::on_ids;
use crate::ids::{Ids, text};
use crate::stream::{Parsed, calling, calling_bare, check_given, marker_policy, typed};

impl Codec {
    /// A stream after a prompt, which may be long.
    pub(crate) fn stream_after(
        &self,
        py: Python<'_>,
        prompt: Option<Ids>,
        markers: &str,
        tools: Option<&Bound<'_, PyAny>>,
        calls_in_reasoning: Option<&str>,
        bare_calls: Option<&str>,
    ) -> PyResult<CoreStream> {
        let policy = marker_policy(markers)?;
        if self.inner.response().is_some() {
            let is_given = [
                ("markers", policy != MarkerPolicy::Ids),
                ("calls_in_reasoning", calls_in_reasoning.is_some()),
                ("bare_calls", bare_calls.is_some()),
            ];
            if let Some((option, _)) = is_given.iter().find(|(_, is_given)| *is_given) {
                let problem = format!(
                    "{option}: is given, but a response template reads ids, and has no such option; expected none"
                );
                return Err(PyValueError::new_err(problem));
            }
        }
        let count = prompt.as_ref().map_or(0, |prompt| prompt.all().len());
        let codec = self.inner.clone();
        let stream = on_ids(py, count, move || codec.stream(prompt.as_ref().map(Ids::all)))?;
        let stream = calling(stream.reading(policy), calls_in_reasoning)?;
        typed(calling_bare(stream, bare_calls)?, tools)
    }

    /// A completion, read by a stream up to the end of the turn.
    pub(super) fn parsed(
        &self,
        stream: CoreStream,
        completion_ids: &Bound<'_, PyAny>,
    ) -> PyResult<Parsed> {
        let py = completion_ids.py();
        let policy = stream.policy();
        let codec = self.inner.clone();
        if policy == MarkerPolicy::Text
            && let Ok(given) = completion_ids.cast::<PyString>()
        {
            let given = text(given, "completion_ids")?;
            let owned = given.to_owned();
            let parse = move || codec.parse_text(stream, &owned);
            let parsed = self.work(py, given.len(), parse)?;
            let rest = given.char_indices().nth(parsed.rest).map_or("", |(at, _)| &given[at..]);
            return Parsed::new(py, &parsed, &[], rest);
        }
        let ids: Ids = completion_ids.extract()?;
        check_given(policy, false)?;
        let count = ids.all().len();
        let parse = move || (codec.parse_ids(stream, ids.all()), ids);
        let (parsed, ids) = on_ids(py, count, parse)?;
        Parsed::new(py, &parsed, &ids.all()[parsed.rest..], "")
    }
}
