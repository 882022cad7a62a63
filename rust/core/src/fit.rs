//! A conversation shortened to a number of ids: the oldest turns are left out.
//!
//! In: a conversation and a number of ids. Out: its encoding, and the indices of the kept messages. System
//! messages at the beginning stay. A turn is a user's message and all messages up to the next one, so that a call
//! keeps its results.

use crate::codec::Codec;
use crate::conversation::Conversation;
use crate::encode::{EncodeOptions, Encoding};
use crate::error::{Error, Result};

/// The newest turns of a conversation.
///
/// ```
/// use chatcodec::{Codec, EncodeOptions, Format, ReadOptions, Vocab};
/// use serde_json::json;
///
/// let codec = Codec::new(&Format::built_in("internlm2")?, &Vocab::embedded())?;
/// let messages = json!([
///     {"role": "user", "content": "A long story, long ago."},
///     {"role": "assistant", "content": "I see."},
///     {"role": "user", "content": "Hi"},
/// ]);
/// let conversation = codec.read_conversation(&messages, None, ReadOptions::default())?;
/// let fitted = codec.fit(&conversation, 24, &EncodeOptions::default())?;
/// assert_eq!(fitted.kept, [2]);
/// assert!(fitted.encoding.ids().len() <= 24 && fitted.whole > 24);
/// # Ok::<(), chatcodec::Error>(())
/// ```
#[derive(Debug)]
pub struct Fitted {
    /// The encoding of the messages that are left.
    pub encoding: Encoding,
    /// The caller's indices of the messages that are left.
    pub kept: Vec<usize>,
    /// Number of ids of the whole conversation.
    pub whole: usize,
}

impl Codec {
    /// Encodes as many of the newest turns as have at most `tokens` ids.
    ///
    /// # Errors
    /// [`Error::Message`] if the last turn alone has more ids, and the errors of
    /// [`Codec::encode_conversation`].
    pub fn fit(
        &self,
        conversation: &Conversation,
        tokens: usize,
        options: &EncodeOptions,
    ) -> Result<Fitted> {
        let encode = |conversation: &Conversation| {
            let encoding = self.encode_conversation(conversation.clone(), options)?;
            Ok::<_, Error>((encoding.ids().len(), encoding))
        };
        let given = conversation.caller_indices();
        let (whole, encoding) = encode(conversation)?;
        if whole <= tokens {
            return Ok(Fitted { encoding, kept: given, whole });
        }
        let (first, starts) = conversation.turns();
        let shortened = |turn: usize| conversation.without(first..starts[turn]);
        // The least number of turns to leave out is in `low..=high`.
        let (mut low, mut high) = (1, starts.len().saturating_sub(1));
        if high == 0 {
            return Err(too_long(whole, tokens));
        }
        let mut left = shortened(high);
        let (count, mut encoding) = encode(&left)?;
        if count > tokens {
            return Err(too_long(count, tokens));
        }
        while low < high {
            let middle = usize::midpoint(low, high);
            let tried = shortened(middle);
            let (count, found) = encode(&tried)?;
            if count <= tokens {
                (high, left, encoding) = (middle, tried, found);
            } else {
                low = middle + 1;
            }
        }
        Ok(Fitted { encoding, kept: left.caller_indices(), whole })
    }
}

fn too_long(count: usize, tokens: usize) -> Error {
    let problem = format!(
        "have {count} ids without the turns before the last, expected at most {tokens}; \
         shorten the last turn or the system message"
    );
    Error::message("messages", problem)
}
