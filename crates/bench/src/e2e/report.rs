//! All workloads as a table on stdout and as a plot in docs/images.

use std::fmt::Write;
use std::path::Path;

use serde_json::Value;

use super::Workload;
use crate::target::Database;

const MANY: usize = 256;

/// All workloads with their number in flight: alone, and many where that makes sense.
pub(crate) fn runs() -> Vec<(Workload, usize)> {
    let both = [Workload::Noop, Workload::Task1, Workload::Chain3, Workload::Run3];
    let mut runs: Vec<(Workload, usize)> = both.iter().flat_map(|one| [(*one, 1), (*one, MANY)]).collect();
    runs.extend([
        (Workload::Fanout100, 16),
        (Workload::Timer100ms, MANY),
        (Workload::Drain10k, 1),
        (Workload::Addstart, 1),
        (Workload::Replay10k, 1),
    ]);
    runs
}

/// The columns of the table: a key of the JSON line, and its heading.
const COLUMNS: &[(&str, &str)] = &[
    ("workload", "workload"),
    ("concurrency", "in flight"),
    ("workflows_per_s", "workflows/s"),
    ("tasks_per_s", "tasks/s"),
    ("enqueued_per_s", "enqueued/s"),
    ("p50_ms", "p50 ms"),
    ("p99_ms", "p99 ms"),
    ("late_p99_ms", "slept longer p99 ms"),
    ("fired_late_p99_ms", "timers late p99 ms"),
    ("fsync_p50_ms", "bare fsync ms"),
    ("commits_per_workflow", "commits each"),
    ("bytes_written_per_workflow", "bytes each"),
    ("server_cpu", "server cores"),
    ("idle_rss_mb", "server MB idle"),
    ("server_rss_mb", "under load"),
    ("after_rss_mb", "after it"),
];

pub(super) fn write(store: Database, lines: &[String]) -> Result<(), String> {
    let rows: Vec<Value> = lines
        .iter()
        .map(|line| serde_json::from_str(line))
        .collect::<Result<_, _>>()
        .map_err(|e| e.to_string())?;
    crate::print_line(&table(&rows));
    let folder = Path::new("docs/images");
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let file = folder.join(format!("bench-{}.svg", store.name()));
    std::fs::write(&file, plot(store, &rows)).map_err(|error| format!("{}: {error}", file.display()))?;
    eprintln!("the plot is in {}", file.display());
    Ok(())
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_f64().unwrap_or_default() {
            whole if whole.fract() == 0.0 => in_thousands(whole),
            large if large >= 100.0 => in_thousands(large),
            middle if middle >= 1.0 => format!("{middle:.1}"),
            small => format!("{small:.2}"),
        },
        _ => String::new(),
    }
}

/// The number without a fraction and with separators, such as `12,345`.
fn in_thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let ends_group = |index: usize| index > 0 && (digits.len() - index).is_multiple_of(3);
    let mut shown = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if ends_group(index) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

fn table(rows: &[Value]) -> String {
    let headings: Vec<&str> = COLUMNS.iter().map(|(_, heading)| *heading).collect();
    let mut text = format!("| {} |\n|{}", headings.join(" | "), "---|".repeat(COLUMNS.len()));
    for row in rows {
        let cells: Vec<String> = COLUMNS.iter().map(|(key, _)| shown(&row[*key])).collect();
        let _ = write!(text, "\n| {} |", cells.join(" | "));
    }
    text
}

/// One group of bars in the plot. The longest bar has the full width.
struct Bars {
    title: &'static str,
    bars: Vec<(String, f64)>,
}

fn plot(store: Database, rows: &[Value]) -> String {
    let name = |row: &Value| row["workload"].as_str().unwrap_or_default().to_owned();
    let number = |row: &Value, key: &str| row[key].as_f64();
    let lone = |row: &&Value| row["concurrency"] == 1.0;
    let many = |row: &&Value| row["concurrency"] == MANY as f64;
    let groups = [
        Bars {
            title: "workflows per second, 256 in flight",
            bars: rows
                .iter()
                .filter(many)
                .filter_map(|row| Some((name(row), number(row, "workflows_per_s")?)))
                .collect(),
        },
        Bars {
            title: "tasks per second",
            bars: rows
                .iter()
                .filter(|row| !lone(row))
                .filter_map(|row| Some((name(row), number(row, "tasks_per_s").filter(|rate| *rate > 0.0)?)))
                .chain(
                    rows.iter()
                        .filter_map(|row| Some(("bulk enqueue".to_owned(), number(row, "enqueued_per_s")?))),
                )
                .collect(),
        },
        Bars {
            title: "one alone, p50 in milliseconds",
            bars: rows
                .iter()
                .filter(lone)
                .filter_map(|row| Some((name(row), number(row, "p50_ms")?)))
                .collect(),
        },
    ];
    const BAR: f64 = 22.0;
    const WIDTH: f64 = 420.0;
    let height = 50.0 + groups.iter().map(|group| 48.0 + group.bars.len() as f64 * BAR).sum::<f64>();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 720 {height}\" font-family=\"system-ui, sans-serif\" \
         font-size=\"13\">\n<style>text{{fill:#222}}.b{{fill:#3d7dca}}@media(prefers-color-scheme:dark){{text{{fill:#ddd}}\
         .b{{fill:#6ea8e8}}}}</style>\n<text x=\"20\" y=\"28\" font-size=\"15\">Flovyn end to end on {}: server, worker and \
         load on the same machine, fsync on</text>\n",
        store.name()
    );
    let mut y = 50.0;
    for group in groups {
        let longest = group.bars.iter().map(|(_, value)| *value).fold(f64::MIN_POSITIVE, f64::max);
        y += 24.0;
        let _ = writeln!(svg, "<text x=\"20\" y=\"{y}\" font-weight=\"600\">{}</text>", group.title);
        y += 8.0;
        for (name, value) in group.bars {
            let length = (value / longest * WIDTH).max(1.0);
            let _ = writeln!(
                svg,
                "<text x=\"120\" y=\"{:.1}\" text-anchor=\"end\">{name}</text><rect class=\"b\" x=\"130\" y=\"{:.1}\" \
                 width=\"{length:.1}\" height=\"16\" rx=\"2\"/><text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                y + 13.0,
                y,
                138.0 + length,
                y + 13.0,
                shown(&serde_json::json!(value)),
            );
            y += BAR;
        }
        y += 16.0;
    }
    svg + "</svg>\n"
}
