//! Cursors of listings, opaque to callers.

use uuid::Uuid;

/// Encodes the creation time and the id of the last item.
pub(super) fn write(created_ms: i64, id: Uuid) -> String {
    format!("{created_ms:x}.{}", id.simple())
}

pub(super) fn read(text: &str) -> Option<(i64, Uuid)> {
    let (created, id) = text.split_once('.')?;
    Some((i64::from_str_radix(created, 16).ok()?, Uuid::try_parse(id).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read_and_nothing_else() {
        let id = Uuid::from_u128(7);
        assert_eq!(read(&write(1_736_937_000_000, id)), Some((1_736_937_000_000, id)));
        for wrong in ["", ".", "x.y", "12", "12.not-an-id"] {
            assert_eq!(read(wrong), None);
        }
    }
}
