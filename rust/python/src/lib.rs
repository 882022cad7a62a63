//! Python bindings: the module `chatcodec._core`. Each class converts, calls the core, and returns.

// PyO3 hands over owned values in many places.
#![allow(clippy::needless_pass_by_value)]

mod array;
mod arrow;
mod arrow_read;
mod away;
mod batch;
mod cell;
mod codec;
mod constraint;
mod encoding;
mod errors;
mod events;
mod files;
mod format;
mod guard;
mod heap;
mod ids;
mod ints;
mod media;
mod node;
mod note;
mod options;
mod pack;
mod pipeline;
mod pool;
mod reader;
mod report;
mod response;
mod rows;
mod stream;
mod table;
mod template;
mod text_batch;
mod texts;
mod typed;
mod types;
mod vocab;
mod vocab_files;
mod witness;
mod words;

use pyo3::prelude::*;

/// The compiled half of `chatcodec`.
#[pymodule(gil_used = false)]
mod _core {
    #[pymodule_export]
    use super::array::IntArray;
    #[pymodule_export]
    use super::codec::Codec;
    #[pymodule_export]
    use super::constraint::Constraint;
    #[pymodule_export]
    use super::encoding::{Batch, Collision, Dropped, Encoding, Neutralized, Placeholder};
    #[pymodule_export]
    use super::events::{
        ActionDelta, ActionEnd, ActionStart, Media, Notice, Reasoning, Text, TurnEnd, TurnStart,
        collect,
    };
    #[pymodule_export]
    use super::format::{Format, formats};
    #[pymodule_export]
    use super::guard::_install;
    // Tests alone use these: scripts/stubs.py leaves them out.
    #[pymodule_export]
    use super::guard::{_Panics, _ask_for_panic};
    #[pymodule_export]
    use super::note::Note;
    #[pymodule_export]
    use super::pack::{pack, pack_table};
    #[pymodule_export]
    use super::pool::StreamPool;
    #[pymodule_export]
    use super::report::VocabReport;
    #[pymodule_export]
    use super::response::ResponseTemplate;
    #[pymodule_export]
    use super::stream::{Parsed, Stream};
    #[pymodule_export]
    use super::table::EncodedTable;
    #[pymodule_export]
    use super::template::{Rendered, Template};
    #[pymodule_export]
    use super::text_batch::TextBatch;
    #[pymodule_export]
    use super::types::ToolTypes;
    #[pymodule_export]
    use super::vocab::Vocab;
    #[pymodule_export]
    use super::witness::Witness;

    /// The version of the package.
    #[pymodule_export]
    #[expect(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
