//! The metrics of one tenant, taken from the metrics of the server.

use flovyn_engine::ids::TenantId;

/// The series of this tenant, each metric with its description. `text` is in the text format of Prometheus.
///
/// The tenant is the first label of every metric that has it, so a user-chosen name cannot be mistaken for it.
pub(crate) fn of_tenant(text: &str, tenant_id: TenantId) -> String {
    let label = format!("tenant_id=\"{tenant_id}\"");
    let is_own = |line: &str| {
        let labels = line.split_once('{').and_then(|(_, labels)| labels.strip_prefix(label.as_str()));
        labels.is_some_and(|rest| rest.starts_with([',', '}']))
    };
    let (mut own, mut about) = (String::new(), String::new());
    for line in text.lines() {
        if line.starts_with("# HELP ") {
            about.clear();
        }
        if line.starts_with('#') {
            about.push_str(line);
            about.push('\n');
        } else if is_own(line) {
            own.push_str(&about);
            about.clear();
            own.push_str(line);
            own.push('\n');
        }
    }
    own
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::of_tenant;

    #[test]
    fn only_the_series_of_the_tenant_are_left() {
        let (one, two) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let text = format!(
            "# HELP a about a\n# TYPE a counter\na{{tenant_id=\"{one}\"}} 1\na{{tenant_id=\"{two}\",x=\"1\"}} 2\n\n\
             # HELP b about b\n# TYPE b counter\nb{{x=\"\\\",tenant_id=\\\"{one}\\\"\",tenant_id=\"{one}\"}} 3\n\
             b{{tenant_id=\"other\"}} 4\n\n# HELP c about c\n# TYPE c gauge\nc 5\n"
        );
        let own = of_tenant(&text, one);
        assert_eq!(own, format!("# HELP a about a\n# TYPE a counter\na{{tenant_id=\"{one}\"}} 1\n"));
        assert!(!of_tenant(&text, two).contains(&one.to_string()));
        assert_eq!(of_tenant(&text, Uuid::from_u128(3)), "");
    }

    #[test]
    fn the_tenant_is_the_first_label_wherever_it_is_one() {
        for metric in crate::metrics::catalog::all() {
            let place = metric.labels.iter().position(|label| *label == "tenant_id");
            assert!(place.is_none_or(|place| place == 0), "{}", metric.name);
        }
    }
}
