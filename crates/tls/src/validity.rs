//! Validity period of an X.509 certificate.

#![expect(
    clippy::redundant_closure_for_method_calls,
    reason = "the methods themselves are not general enough in their lifetimes"
)]

use std::time::{Duration, SystemTime};

use yasna::tags::TAG_UTCTIME;
use yasna::{ASN1Result, BERReader, BERReaderSeq, Tag};

/// Reads the validity period of a DER-encoded certificate (RFC 5280, section 4.1).
pub(crate) fn validity(certificate: &[u8]) -> Option<(SystemTime, SystemTime)> {
    let read = yasna::parse_der(certificate, |reader| {
        reader.read_sequence(|certificate| {
            let validity = certificate.next().read_sequence(to_be_signed);
            skip(certificate)?;
            validity
        })
    });
    let (not_before, not_after) = read.ok()?;
    Some((system_time(not_before)?, system_time(not_after)?))
}

fn to_be_signed(fields: &mut BERReaderSeq<'_, '_>) -> ASN1Result<(i64, i64)> {
    fields
        .read_optional(|version| version.read_tagged(Tag::context(0), |number| number.read_u8()))?;
    let (_serial, _signature, _issuer) =
        (fields.next().read_der()?, fields.next().read_der()?, fields.next().read_der()?);
    let validity = fields.next().read_sequence(|times| {
        let not_before = unix_time(times.next())?;
        Ok((not_before, unix_time(times.next())?))
    })?;
    skip(fields)?;
    Ok(validity)
}

/// Reads the rest of a sequence, which the DER parser requires.
fn skip(fields: &mut BERReaderSeq<'_, '_>) -> ASN1Result<()> {
    while fields.read_optional(|field| field.read_der())?.is_some() {}
    Ok(())
}

fn unix_time(reader: BERReader<'_, '_>) -> ASN1Result<i64> {
    // Years from 2050 on do not fit into UTCTime.
    if reader.lookahead_tag()? == TAG_UTCTIME {
        Ok(reader.read_utctime()?.datetime().unix_timestamp())
    } else {
        Ok(reader.read_generalized_time()?.datetime().unix_timestamp())
    }
}

fn system_time(seconds: i64) -> Option<SystemTime> {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(u64::try_from(seconds).ok()?))
}

#[cfg(test)]
mod tests {
    use super::validity;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};
    use std::time::{Duration, SystemTime};

    /// UTCTime and GeneralizedTime are parsed, and truncated certificates yield `None`.
    #[test]
    fn both_forms_of_dates_are_parsed() {
        let seconds = |number| SystemTime::UNIX_EPOCH + Duration::from_secs(number);
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.not_before = date_time_ymd(2026, 1, 2);
        params.not_after = date_time_ymd(2060, 3, 4);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let expected = Some((seconds(1_767_312_000), seconds(2_845_584_000)));
        assert_eq!(validity(certificate.der()), expected);
        for length in 0..certificate.der().len() {
            assert_eq!(validity(&certificate.der()[..length]), None, "cut after {length} bytes");
        }
        assert_eq!(validity(b"no certificate"), None);
    }
}
