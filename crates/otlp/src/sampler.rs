//! Decision which traces are recorded.

use mcp_flow_proto::model::TraceParent;

/// Sampler of traces.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampler {
    /// Set if the decision of the caller is followed, where there is one.
    follows_parent: bool,
    /// Trace ids whose lower 63 bits are below this are recorded.
    threshold: u64,
}

impl Default for Sampler {
    fn default() -> Self {
        Self { follows_parent: true, threshold: ALL }
    }
}

impl Sampler {
    /// Records a share of the traces, from 0 to 1, and those that callers record.
    pub fn ratio(share: f64) -> Self {
        Self { follows_parent: true, threshold: threshold(share) }
    }

    /// Reads a sampler by its name in `OTEL_TRACES_SAMPLER`, with its argument.
    pub fn from_name(name: &str, argument: Option<&str>) -> Result<Self, String> {
        let (follows_parent, kind) = match name.strip_prefix("parentbased_") {
            Some(kind) => (true, kind),
            None => (false, name),
        };
        let threshold = match kind {
            "always_on" => ALL,
            "always_off" => 0,
            "traceidratio" => match argument.map(str::parse::<f64>) {
                None => ALL,
                Some(Ok(share)) if (0.0..=1.0).contains(&share) => threshold(share),
                Some(_) => return Err("the share of traces must be from 0 to 1".to_owned()),
            },
            _ => {
                return Err(format!(
                    "{name:?} is unknown; use always_on, always_off or traceidratio, or one of \
                     them after parentbased_"
                ));
            }
        };
        Ok(Self { follows_parent, threshold })
    }

    #[expect(clippy::cast_possible_truncation, reason = "the lower half of the id decides")]
    pub(crate) fn samples(self, parent: Option<&TraceParent>, trace: u128) -> bool {
        match parent {
            Some(parent) if self.follows_parent => parent.is_sampled(),
            // All processes decide alike on one trace.
            _ => (trace as u64) >> 1 < self.threshold,
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share of a range needs no exact bound"
)]
fn threshold(share: f64) -> u64 {
    if share >= 1.0 { ALL } else { (share.max(0.0) * ALL as f64) as u64 }
}

const ALL: u64 = 1 << 63;

#[cfg(test)]
mod tests {
    use super::Sampler;
    use mcp_flow_proto::model::TraceParent;

    #[test]
    fn shares_of_traces_are_recorded() {
        let sampled = |name: &str, argument| {
            let sampler = Sampler::from_name(name, argument).unwrap();
            let ids = (1..=1000_u128).map(|number| number * 0x9E37_79B9_7F4A_7C15_F39C_C060_5CED);
            ids.filter(|id| sampler.samples(None, *id)).count()
        };
        assert_eq!(sampled("always_on", None), 1000);
        assert_eq!(sampled("always_off", None), 0);
        assert_eq!(sampled("traceidratio", Some("1")), 1000);
        assert_eq!(sampled("parentbased_traceidratio", Some("0")), 0);
        let half = sampled("traceidratio", Some("0.5"));
        assert!((400..600).contains(&half), "{half} of 1000");
        for (name, argument) in
            [("sometimes", None), ("traceidratio", Some("2")), ("traceidratio", Some("x"))]
        {
            assert!(Sampler::from_name(name, argument).is_err(), "{name}");
        }
    }

    #[test]
    fn the_caller_decides_if_it_is_followed() {
        let parent = |sampled| TraceParent::new(7, 7, sampled);
        for (name, caller, expected) in [
            ("parentbased_always_on", false, false),
            ("parentbased_always_off", true, true),
            ("always_on", false, true),
            ("always_off", true, false),
        ] {
            let sampler = Sampler::from_name(name, None).unwrap();
            assert_eq!(sampler.samples(parent(caller).as_ref(), 7), expected, "{name}");
        }
        assert!(Sampler::default().samples(None, 1));
        assert!(!Sampler::ratio(0.0).samples(None, 1));
    }
}
