//! Parts of a message that are no text: an image, a video, audio.
//!
//! Ids hold none of their data. A part is a number of placeholder ids, which an engine replaces with embeddings.

/// Kind of a media part.
///
/// ```
/// use chatcodec::MediaKind;
///
/// assert_eq!(MediaKind::of_part("image_url"), Some(MediaKind::Image));
/// assert_eq!(MediaKind::Audio.name(), "audio");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MediaKind {
    /// An image.
    Image,
    /// A video.
    Video,
    /// Audio.
    Audio,
}

impl MediaKind {
    /// All kinds, in the order in which a format tries them.
    pub const ALL: [Self; 3] = [Self::Image, Self::Video, Self::Audio];

    /// The name of the kind: its key in a format file, and the `type` of its parts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Video => "video",
            Self::Audio => "audio",
        }
    }

    /// The kind of a part, by the `type` that clients give it.
    pub fn of_part(word: &str) -> Option<Self> {
        match word {
            "image" | "image_url" | "input_image" => Some(Self::Image),
            "video" | "video_url" | "input_video" => Some(Self::Video),
            "audio" | "audio_url" | "input_audio" => Some(Self::Audio),
            _ => None,
        }
    }

    /// The kind with its name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == word)
    }

    /// The kind with its article, for errors.
    pub(crate) fn with_article(self) -> &'static str {
        match self {
            Self::Image => "an image",
            Self::Video => "a video",
            Self::Audio => "audio",
        }
    }
}

/// A media part of a message: an image, a video or audio. Two parts are equal wherever their caller put them.
///
/// ```
/// use chatcodec::{Media, MediaKind, MediaPlace, Message, Piece, Role};
///
/// let mut message = Message::new(Role::User, "What is this?");
/// let place = MediaPlace::Content(0);
/// message.media.push(Media { kind: MediaKind::Image, at: 0, count: 256, rows: 1, place });
/// let mut pieces = message.pieces();
/// assert!(matches!(pieces.next(), Some(Piece::Media(image)) if image.count == 256));
/// assert!(matches!(pieces.next(), Some(Piece::Text("What is this?"))));
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Media {
    /// The kind of the part.
    pub kind: MediaKind,
    /// The byte of the message's content before which the part is located. Parts are in ascending order.
    pub at: usize,
    /// Number of placeholder ids in a row.
    pub count: u32,
    /// Number of rows: 1, except in formats that separate the rows of an image.
    pub rows: u32,
    /// The place of the part in the caller's message, for its path.
    pub place: MediaPlace,
}

/// Place of a part in a caller's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MediaPlace {
    /// `content[i]`
    Content(u32),
    /// `content[i].content[j]`: in a result that is a part of a user's message.
    Result(u32, u32),
    /// `output[i]`: in a result that is an item.
    Output(u32),
}

impl PartialEq for Media {
    fn eq(&self, other: &Self) -> bool {
        let key = |it: &Self| (it.kind, it.at, it.count, it.rows);
        key(self) == key(other)
    }
}

impl Eq for Media {}

impl Media {
    /// Number of placeholder ids, without what separates rows.
    pub(crate) fn ids(&self) -> u64 {
        u64::from(self.count) * u64::from(self.rows)
    }
}

/// Text of a content, or a part between two texts.
#[derive(Debug, Clone, Copy)]
pub enum Piece<'a> {
    /// Text, which is not empty.
    Text(&'a str),
    /// A media part.
    Media(&'a Media),
}

/// The texts and the other parts of a content, in order. A place outside of the text counts as its end.
pub(crate) fn pieces<'a>(text: &'a str, media: &'a [Media]) -> impl Iterator<Item = Piece<'a>> {
    let mut from = 0;
    let parts = media.iter().flat_map(move |part| {
        let to = if text.is_char_boundary(part.at) { part.at.max(from) } else { text.len() };
        let before = &text[from..to];
        from = to;
        [(!before.is_empty()).then_some(Piece::Text(before)), Some(Piece::Media(part))]
    });
    let end = media.iter().map(|part| part.at).max().unwrap_or(0);
    let rest = text.get(end..).unwrap_or_default();
    parts.chain([(!rest.is_empty()).then_some(Piece::Text(rest))]).flatten()
}
