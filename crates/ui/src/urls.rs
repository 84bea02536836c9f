//! Builds URLs. User-chosen text is encoded before it becomes part of one.

/// Encodes a segment of a path or a value of a query.
pub(crate) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => encoded.push(byte.into()),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// Builds a query from the non-empty values. Empty if there are none.
pub(crate) fn query<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let given = pairs.into_iter().filter(|(_, value)| !value.is_empty());
    let pairs: Vec<String> = given.map(|(name, value)| format!("{name}={}", encode(value))).collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

/// Whether a redirect to this path stays on this server. A path that names another host does not.
pub(crate) fn is_local(path: &str) -> bool {
    let rest = path.strip_prefix('/');
    rest.is_some_and(|rest| !rest.starts_with(['/', '\\']))
        && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_their_segment() {
        assert_eq!(encode("a b/../c?d#e&f=é"), "a%20b%2F..%2Fc%3Fd%23e%26f%3D%C3%A9");
        assert_eq!(query([("a", "1 2"), ("b", ""), ("c", "x")]), "?a=1%202&c=x");
        assert_eq!(query([("a", "")]), "");
    }

    #[test]
    fn only_paths_of_this_server_are_local() {
        for local in ["/", "/t/default/executions?status=FAILED", "/a//b"] {
            assert!(is_local(local), "{local}");
        }
        for foreign in
            ["", "//evil.example", "/\\evil.example", "https://evil.example", "x", "/a\nb", "/\t/evil"]
        {
            assert!(!is_local(foreign), "{foreign:?}");
        }
    }
}
