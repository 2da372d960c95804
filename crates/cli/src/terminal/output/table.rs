//! Tables that fit the terminal.

use comfy_table::{ContentArrangement, Table};
use unicode_width::UnicodeWidthStr as _;

use super::Format;

/// Formats rows under a heading, with sanitized cells. Plain rows have one line each.
pub(crate) fn write(heading: &[&str], rows: &[Vec<String>], format: Format) -> String {
    match format {
        Format::Plain | Format::Json => plain(rows),
        Format::Table => fitting(heading, rows, super::columns()),
    }
}

fn plain(rows: &[Vec<String>]) -> String {
    let line = |row: &Vec<String>| {
        let cells: Vec<_> = row.iter().map(|cell| one_line(cell)).collect();
        cells.join("\t").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

fn fitting(heading: &[&str], rows: &[Vec<String>], columns: Option<u16>) -> String {
    let names = rows.iter().filter_map(|row| row.first());
    let longest = names.map(|name| super::sanitize(name).width()).max().unwrap_or_default();
    match columns {
        Some(columns) if columns < NARROW || longest > usize::from(columns / 2) => {
            rows.iter().map(|row| stacked(row, columns)).collect()
        }
        _ => {
            let mut table = table(columns);
            table.set_header(heading.iter().map(|name| name.to_uppercase()));
            for row in rows {
                table.add_row(row.iter().map(|cell| super::sanitize(cell).replace('\t', " ")));
            }
            lines(&mut table, "")
        }
    }
}

/// Formats a row with its name, which is copied from there, unbroken on a line of its own.
fn stacked(row: &[String], columns: u16) -> String {
    let Some((name, cells)) = row.split_first() else { return String::new() };
    let mut table = table(Some(columns.saturating_sub(2)));
    for cell in cells.iter().filter(|cell| !cell.is_empty()) {
        table.add_row([super::sanitize(cell).replace('\t', " ")]);
    }
    format!("{}\n{}", one_line(name), lines(&mut table, "  "))
}

fn table(columns: Option<u16>) -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    if let Some(columns) = columns {
        table.set_width(columns.max(NARROWEST));
    }
    table
}

fn lines(table: &mut Table, indent: &str) -> String {
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.lines().map(|line| format!("{indent}{}\n", line.trim_end())).collect()
}

fn one_line(cell: &str) -> String {
    super::sanitize(cell).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Least width of a table in columns.
const NARROWEST: u16 = 18;

/// Width below which columns would break names.
const NARROW: u16 = 60;

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr;

    use super::{Format, fitting, write};

    fn rows() -> Vec<Vec<String>> {
        let long = "a description that is much longer than any terminal is wide ".repeat(4);
        vec![
            vec!["calculator.add".into(), long],
            vec!["翻訳する道具".into(), "日本語の説明文がここにとても長く続いている".repeat(3)],
            vec!["evil\u{1b}]0;title\u{7}".into(), "two\nlines\tand a tab".into()],
        ]
    }

    /// PAT-033: a table is never wider than its terminal, even with wide characters, and has no
    /// control characters.
    #[test]
    fn a_table_fits_the_terminal() {
        for columns in [20, 40, 80, 200] {
            let table = fitting(&["name", "description"], &rows(), Some(columns));
            for line in table.lines() {
                assert!(line.width() <= usize::from(columns), "{columns}: {line:?}");
            }
            assert!(!table.contains('\u{1b}') && !table.contains('\u{7}'));
        }
    }

    /// Names can be copied from a table of any width, in which they would not fit beside the others.
    #[test]
    fn names_are_never_broken() {
        let name = "a_server_with_a_long_name.and_a_tool_that_has_one";
        for columns in [10, 20, 40, 59, 60, 80] {
            let rows = [rows(), vec![vec![name.to_owned(), String::new(), "short".to_owned()]]];
            let table =
                fitting(&["name", "arguments", "description"], &rows.concat(), Some(columns));
            for name in ["calculator.add", "翻訳する道具", name] {
                assert!(table.lines().any(|line| line.starts_with(name)), "{columns}: {table}");
            }
        }
    }

    #[test]
    fn plain_output_has_one_line_per_row() {
        let list = write(&["name", "description"], &rows(), Format::Plain);
        assert_eq!(list.lines().count(), 3);
        assert!(list.lines().all(|line| line.matches('\t').count() == 1), "{list}");
    }
}
