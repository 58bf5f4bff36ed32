//! 2025-03-26 introduced audio content, tool annotations, the progress message and the `completions` flag. The last three
//! are data and pass.

use super::{
    super::{Method, json::draft::Draft},
    Cause, Crossing, Kind, Untranslatable, content, sampling,
};

/// Lowers for 2024-11-05.
pub(super) fn down(draft: &mut Draft<'_>, crossing: &Crossing<'_>) -> Result<(), Untranslatable> {
    content::each_block(draft, crossing, content::audio_to_resource);
    // sampling knows no embedded resource that the sound could become
    if crossing.facts.method == &Method::CreateMessage && sampling::holds(draft, &["audio"]) {
        return Err(match crossing.facts.kind {
            Kind::Answer => crossing.refuse("audio in sampling", Cause::Answer),
            _ => crossing.refuse("audio in sampling", Cause::Question { capability: "sampling", part: None }),
        });
    }
    Ok(())
}

/// Requires nothing that is new.
#[expect(clippy::unnecessary_wraps, reason = "the steps are of one type")]
pub(super) fn up(_: &mut Draft<'_>, _: &Crossing<'_>) -> Result<(), Untranslatable> {
    Ok(())
}
