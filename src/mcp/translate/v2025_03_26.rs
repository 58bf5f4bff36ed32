//! 2025-03-26 introduced audio content, tool annotations, the progress message and the `completions` flag. Only audio
//! is converted; the rest passes as data.

use super::{
    super::{LackingFeature, Method, json::draft::Draft},
    content,
    facts::Kind,
    refusal::{Cause, Untranslatable},
    sampling,
    translation::Translation,
};

pub(super) fn down(draft: &mut Draft<'_>, translation: &Translation<'_>) -> Result<(), Untranslatable> {
    content::each_block(draft, translation, content::audio_to_resource);
    // sampling has no embedded resource to convert audio to
    if translation.facts.method == &Method::CreateMessage && sampling::holds(draft, &["audio"]) {
        return Err(match translation.facts.kind {
            Kind::Answer => translation.refuse(LackingFeature::SamplingAudio, Cause::Answer),
            _ => translation.refuse(LackingFeature::SamplingAudio, Cause::ServerRequest),
        });
    }
    Ok(())
}

/// This version has no new requirements.
#[expect(clippy::unnecessary_wraps, reason = "the steps are of one type")]
pub(super) fn up(_: &mut Draft<'_>, _: &Translation<'_>) -> Result<(), Untranslatable> {
    Ok(())
}
