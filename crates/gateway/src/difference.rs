//! Differences between two texts, line by line.

/// Returns the lines of both texts: those only in the first begin with `-`, those only in the second
/// with `+`, and up to three others around them with a space.
pub(crate) fn difference(before: &str, after: &str) -> String {
    let (old, new): (Vec<_>, Vec<_>) = (before.lines().collect(), after.lines().collect());
    let start = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let rest = (old[start..].iter().rev()).zip(new[start..].iter().rev());
    let end = rest.take_while(|(old, new)| old == new).count();
    let (changed, replacing) = (&old[start..old.len() - end], &new[start..new.len() - end]);
    let mut lines: Vec<String> = Vec::new();
    lines.extend(old[start.saturating_sub(CONTEXT)..start].iter().map(|line| format!("  {line}")));
    lines.extend(changed_lines(changed, replacing));
    let behind = &old[old.len() - end..];
    lines.extend(behind.iter().take(CONTEXT).map(|line| format!("  {line}")));
    lines.join("\n")
}

/// The lines of two parts by their longest common subsequence, if that is not too much work.
fn changed_lines(old: &[&str], new: &[&str]) -> Vec<String> {
    let removed = |line: &&str| format!("- {line}");
    let added = |line: &&str| format!("+ {line}");
    if old.len().saturating_mul(new.len()) > MAX_COMPARISONS {
        return old.iter().map(removed).chain(new.iter().map(added)).collect();
    }
    let width = new.len() + 1;
    let mut lengths = vec![0_u32; (old.len() + 1) * width];
    for (row, one) in old.iter().enumerate().rev() {
        for (column, other) in new.iter().enumerate().rev() {
            let at = row * width + column;
            lengths[at] = match one == other {
                true => lengths[at + width + 1] + 1,
                false => lengths[at + width].max(lengths[at + 1]),
            };
        }
    }
    let (mut row, mut column, mut lines) = (0, 0, Vec::new());
    while row < old.len() && column < new.len() {
        let at = row * width + column;
        if old[row] == new[column] {
            lines.push(format!("  {}", old[row]));
            (row, column) = (row + 1, column + 1);
        } else if lengths[at + width] >= lengths[at + 1] {
            lines.push(removed(&old[row]));
            row += 1;
        } else {
            lines.push(added(&new[column]));
            column += 1;
        }
    }
    lines.extend(old[row..].iter().map(removed));
    lines.extend(new[column..].iter().map(added));
    lines
}

/// Equal lines shown around a change.
const CONTEXT: usize = 3;

/// Limit on comparisons of lines.
const MAX_COMPARISONS: usize = 1_000_000;

#[cfg(test)]
mod tests {
    use super::difference;

    #[test]
    fn differences_show_removed_and_added_lines() {
        for (before, after, expected) in [
            ("a\nb\nc", "a\nx\nc", "  a\n- b\n+ x\n  c"),
            ("", "a", "+ a"),
            ("a", "", "- a"),
            ("a\nb\nc\nd", "a\nc\nd", "  a\n- b\n  c\n  d"),
            ("1\na\n2\nb", "1\nc\n2\nd", "  1\n- a\n+ c\n  2\n- b\n+ d"),
        ] {
            assert_eq!(difference(before, after), expected, "{before:?} {after:?}");
        }
    }
}
