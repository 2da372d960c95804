//! Comparison of two timelines.

use super::Timeline;

/// Lines that tell two timelines apart: `-` is in the first only, `+` in the second only, `~` has other
/// values. Empty if they are the same.
pub(crate) fn compare(one: &Timeline, other: &Timeline) -> Vec<String> {
    let (first, second) = (bounded(one), bounded(other));
    let lengths = common_lengths(first, second);
    let mut lines = Vec::new();
    let (mut left, mut right) = (0, 0);
    loop {
        match (first.get(left), second.get(right)) {
            (Some(one), Some(other)) if one.label == other.label => {
                if one.value != other.value {
                    let (from, to) = (&one.value, &other.value);
                    lines.push(format!("~ {:>3} {}: {from} / {to}", left + 1, one.label));
                }
                left += 1;
                right += 1;
            }
            (Some(one), Some(_)) if lengths[left + 1][right] >= lengths[left][right + 1] => {
                lines.push(format!("- {:>3} {} {}", left + 1, one.label, one.value));
                left += 1;
            }
            (Some(_) | None, Some(other)) => {
                lines.push(format!("+ {:>3} {} {}", right + 1, other.label, other.value));
                right += 1;
            }
            (Some(one), None) => {
                lines.push(format!("- {:>3} {} {}", left + 1, one.label, one.value));
                left += 1;
            }
            (None, None) => break,
        }
    }
    let cut = one.steps.len().max(other.steps.len()).saturating_sub(MAX_STEPS);
    if cut > 0 {
        lines.push(format!("the last {cut} steps were not compared"));
    }
    lines
}

/// Lengths of the longest common subsequences of what is left from each pair of steps on.
fn common_lengths(
    first: &[super::TimelineStep],
    second: &[super::TimelineStep],
) -> Vec<Vec<usize>> {
    let mut lengths = vec![vec![0; second.len() + 1]; first.len() + 1];
    for left in (0..first.len()).rev() {
        for right in (0..second.len()).rev() {
            lengths[left][right] = match first[left].label == second[right].label {
                true => lengths[left + 1][right + 1] + 1,
                false => lengths[left + 1][right].max(lengths[left][right + 1]),
            };
        }
    }
    lengths
}

fn bounded(timeline: &Timeline) -> &[super::TimelineStep] {
    &timeline.steps[..timeline.steps.len().min(MAX_STEPS)]
}

/// Steps that are compared, which bounds the table.
const MAX_STEPS: usize = 2000;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Timeline, compare};

    fn timeline(answers: &[(&str, &str)]) -> Timeline {
        let mut entries = vec![json!({
            "event": {"started": {"flow": "register", "at": 1}}, "state": "idle", "data": {},
        })];
        for (key, value) in answers {
            let question = json!({"asked": {"key": key, "prompt": {"message": "?"}, "at": 2}});
            entries
                .push(json!({"event": question, "question": key, "state": "waiting", "data": {}}));
            let answer = json!({"answered": {"value": value, "at": 3}});
            entries.push(json!({"event": answer, "state": "active", "data": {*key: value}}));
        }
        Timeline::of_history(&json!({"sessionId": "a", "flow": "register", "entries": entries}))
            .unwrap()
    }

    #[test]
    fn two_sessions_differ_by_answers_and_questions() {
        let one = timeline(&[("name", "Ada"), ("email", "a@b")]);
        assert_eq!(compare(&one, &timeline(&[("name", "Ada"), ("email", "a@b")])), [""; 0]);
        let other = timeline(&[("name", "Bob"), ("age", "3"), ("email", "a@b")]);
        assert_eq!(
            compare(&one, &other),
            [
                "~   3 answered name: \"Ada\" / \"Bob\"",
                "+   4 asked age null",
                "+   5 answered age \"3\""
            ]
        );
        assert_eq!(compare(&other, &one).len(), 3);
        assert!(one.detail(3).unwrap().contains("data      name = \"Ada\""));
        assert!(one.detail(0).is_none() && one.detail(6).is_none());
    }
}
