//! The strict profile keeps only members that the target's schema defines, for clients that refuse unknown members.
//! Values that belong to client and server (arguments, schemas, structured content, `_meta`) stay as they are.

use super::{
    super::{
        Revision,
        json::draft::Draft,
        methods::shapes::{self, Shape},
    },
    facts::Kind,
    translation::Translation,
};

/// Removes members that the target does not define. If the method has no shape, the payload stays as it is.
pub(super) fn prune(draft: &mut Draft<'_>, translation: &Translation<'_>) {
    let (kind, method) = (translation.facts.kind, translation.facts.method);
    let (shape, common) = match kind {
        Kind::Result => (method.result_shape(), shapes::ENVELOPE),
        Kind::Answer => (method.result_shape(), [].as_slice()),
        _ => (method.params_shape(), [].as_slice()),
    };
    let Some(shape) = shape else { return };
    // a task takes the place of the result, and its extension defines the shape
    if !draft.has("taskId") {
        keep(draft, shape, common, translation.to);
    }
}

fn keep(object: &mut Draft<'_>, shape: Shape, common: Shape, target: Revision) {
    object.retain_members(|name, value| {
        let mut members = shape.iter().chain(common);
        let Some(member) = members.find(|member| member.name == name && member.is_in(target)) else {
            return false;
        };
        if let Some(inner) = member.form.inner() {
            if value.is_array() {
                value.each_element(|element| keep(element, inner, &[], target));
            } else {
                keep(value, inner, &[], target);
            }
        }
        true
    });
}
