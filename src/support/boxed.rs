//! Boxes that are filled where they are. Knows nothing of what is in them.

use std::pin::Pin;

/// The value of `make`, pinned in a box.
///
/// `Box::pin` has its value before it has the box, and has to drop it if there is no memory: the value lies on the stack
/// until then, and all of it is copied, also those parts of a future that nothing was written to yet. Here the box comes
/// first. Worth it for the futures of every call, which have some thousands of bytes.
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
