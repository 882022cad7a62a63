//! Limits that several modules share.

/// Maximum number of bytes that a reader holds back before a decision: the header of a turn or of a
/// call, white space, or the beginning of an unmarked call.
pub const HOLD_LIMIT: usize = 4096;

/// Maximum number of placeholder ids of one conversation, for all its images, videos and audio together.
pub const MEDIA_LIMIT: u64 = 1 << 20;

/// Maximum length, in bytes, of the literal between a field and the text that closes it.
pub(crate) const MAX_SUFFIX_BYTES: usize = 1024;

/// Maximum length of a header word, in bytes: a reader holds back a header until it is complete.
pub(crate) const MAX_WORD_BYTES: usize = 1024;
