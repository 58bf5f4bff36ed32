//! Boxes that are filled in place.

use std::pin::Pin;

/// The value of `make`, pinned in a box.
///
/// `Box::pin` needs the value before the box, and has to drop it if memory is short: the value lies on the stack in the
/// meantime, and all of it is copied, even the unused parts of a future. Here the box comes first. This pays off for
/// the futures of every call, which have some thousands of bytes.
pub fn pin_in_box<T>(make: impl FnOnce() -> T) -> Pin<Box<T>> {
    let space = Box::new_uninit();
    Box::into_pin(Box::write(space, make()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_future_in_the_box_is_that_which_was_made() {
        let word = String::from("a boat");
        assert_eq!(pin_in_box(|| async move { word + " passes" }).await, "a boat passes");
    }
}
