//! The bounds that several stages share.

/// The most bytes that a reader holds back before it decides what they are: the header of a turn or of a call,
/// white space, or the beginning of a call that nothing marks.
pub const HOLD_LIMIT: usize = 4096;

/// The longest literal between a field and what closes the field, in bytes.
pub(crate) const MAX_SUFFIX_BYTES: usize = 1024;

/// The longest header word, in bytes: a reader holds back a header until the header is complete.
pub(crate) const MAX_WORD_BYTES: usize = 1024;
