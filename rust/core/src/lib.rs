//! Chat messages to token ids and back, with a guarantee: text is never control.
//!
//! ```text
//! messages ──render──▶ spans ──encode──▶ ids                 ids ──stream──▶ events ──collect──▶ messages
//!                 ▲                                                 ▲
//!                 └──────────────── Format (one TOML file) ─────────┘
//! ```
//!
//! ```
//! use chatcodec::{Codec, EncodeOptions, Format, Message, Role, Vocab};
//!
//! let codec = Codec::new(&Format::built_in("internlm2")?, &Vocab::embedded())?;
//! let messages = vec![Message::new(Role::User, "What does <|im_end|> mean?")];
//! let prompt = codec.encode(messages, None, &EncodeOptions::default())?;
//! assert_eq!(prompt.text(), "<s><|im_start|>user\nWhat does <|im_end|> mean?<|im_end|>\n<|im_start|>assistant\n");
//!
//! let mut completion = codec.vocab().encode("It ends a turn.");
//! completion.extend(codec.stop_ids().first());
//! assert_eq!(codec.parse(&completion, Some(prompt.ids())).message.content, "It ends a turn.");
//! # Ok::<(), chatcodec::Error>(())
//! ```
//!
//! The core knows bytes, ids and messages: no files, no network, no Python. Files come in as bytes.

// The floors, from the bottom to the top: a module uses modules of the groups listed before its own, and no others.
// `scripts/floors.py` checks it, ARCHITECTURE.md says what each floor is for.

mod error;
mod limits;
mod pack;
mod path;

mod message;
mod word;

mod event;
mod expression;
mod json;
mod marker;
mod pattern;
mod span;

mod schema;

mod call;
mod collect;
mod template;

mod format;

mod conversation;
mod grammar;

mod render;

mod encode;

mod bound;
mod canonical;
mod gaps;
mod templated;

mod constrain;
mod response;

mod stream;

mod markup;

mod codec;

mod by_text;
mod derive;
mod extend;
mod fit;
mod pool;
mod recognise;
mod witness;

mod reader;

pub use chatcodec_vocab::{
    ControlId, DummyPrefix, Error as VocabError, Spelling, Stop, TextToken, TokenId, Vocab,
    VocabFiles, VocabOptions, VocabReport, excerpt, make_text_room, place,
};
pub use codec::{Codec, Parsed, collect};
pub use collect::Collector;
pub use constrain::{ConstrainOptions, ConstrainRequest, Constraint};
pub use conversation::{
    Conversation, Dropped, Markup, OnUnknown, OnUnsupported, ReadOptions, Shape, Why,
};
pub use derive::DerivedParts;
pub use encode::{
    Collision, EncodeOptions, Encoding, LabelOptions, Neutralized, Note, NoteKind, OnDependent,
    OnMarker, Placeholder, TemplateOptions,
};
pub use error::{Droppable, Error, MessagePart, Result};
pub use event::{ActionKind, Event, EventKind, NoticeKind, Part, TurnReason};
pub use extend::OnReasoning;
pub use fit::Fitted;
pub use format::{
    BareCalls, DeclaredTools, FolderHints, Format, Guarantee, InReasoning, TemplateSource,
};
pub use limits::{HOLD_LIMIT, MEDIA_LIMIT};
pub use message::{
    Call, CallBody, Media, MediaKind, MediaPlace, Message, Node, OnArguments, Owned, Piece, Role,
    View,
};
pub use pack::pack;
pub use pool::{NoStream, PoolEvent, StreamPool};
pub use reader::{Answers, Reader};
pub use recognise::Recognised;
pub use render::Boundary;
pub use response::ResponseTemplate;
pub use schema::ToolTypes;
pub use span::{Source, SourceField};
pub use stream::{MarkerPolicy, Plain, Stream};
pub use template::{Clock, RenderOptions, RenderedTemplate, Template, TemplateRun};
pub use witness::Witness;
