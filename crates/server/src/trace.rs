//! Checks the format of W3C trace context headers.

/// Whether the text has the form `version-trace-parent-flags` of W3C trace context, in lower-case hexadecimal.
pub(crate) fn is_traceparent(text: &str) -> bool {
    let lengths = [2, 32, 16, 2];
    let mut parts = text.split('-');
    let hex = |part: &str| part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    lengths.iter().all(|length| parts.next().is_some_and(|part| part.len() == *length && hex(part)))
        && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::is_traceparent;

    #[test]
    fn only_well_formed_trace_parents_are_accepted() {
        assert!(is_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"));
        assert!(!is_traceparent(""));
        assert!(!is_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7"));
        assert!(!is_traceparent("00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01"));
        assert!(!is_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x"));
    }
}
