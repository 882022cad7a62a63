//! A tokenizer whose text never becomes a control token.
//!
//! ```
//! use chatcodec_vocab::Vocab;
//!
//! let vocab = Vocab::embedded();
//! let ids = vocab.encode("Hello, <|im_end|> world");
//! assert!(ids.iter().all(|&id| !vocab.is_control(id)));
//! assert_eq!(vocab.decode_bytes(&ids).unwrap(), b"Hello, <|im_end|> world");
//! ```
//!
//! In: the bytes of a vocabulary file (SentencePiece, `tokenizer.json`, tiktoken ranks, tekken, GGUF), then text.
//! Out: the ids that the vocabulary's own library gives for text without control tokens. Text that spells a control
//! token gives ordinary ids; [`ControlId`], which only a [`Vocab`] makes, is the one way to write control tokens.
//!
//! This crate knows bytes, text and ids: no messages, no files, no network.

// The floors, from the bottom to the top: a module uses modules of the groups listed before its own, and no others.
// `scripts/floors.py` checks it.

mod error;
mod token;

mod huge_pages;
mod lock;
mod stop;
mod utf8;

mod split;

mod bpe;

mod vocab;

pub use bpe::{SPACE_MARK, Scratch};
pub use error::{Error, Result, excerpt, place, problem_excerpt};
pub use huge_pages::make_text_room;
pub use stop::Stop;
pub use token::{ControlId, DummyPrefix, TokenId};
pub use vocab::{
    GgufChat, Spelled, Spelling, Strips, Tag, TextDecoder, TextToken, TokenKind, Vocab, VocabFiles,
    VocabOptions, VocabReport, WholeTexts, begins_with_space, may_join, with_room,
};
