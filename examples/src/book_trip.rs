//! `book_trip`: prompts that depend on earlier answers, and a step with a side effect.

use mcp_flow::Date;
use mcp_flow::prelude::*;
use mcp_flow::question::{Choosable, choice, confirm, date, integer, text};
use serde_json::Value;

/// Arguments the caller may give. Missing ones are asked for.
#[data]
#[derive(Debug, Default)]
pub struct BookTrip {
    /// Destination
    pub city: Option<String>,
    /// Day of departure, as YYYY-MM-DD
    pub day: Option<String>,
    /// Number of travellers
    #[schemars(range(min = 1, max = 9))]
    pub travellers: Option<u8>,
    /// Code of an offer, such as rail-1
    pub offer: Option<String>,
    /// True to book
    pub sure: Option<bool>,
}

/// A booked trip.
#[data]
#[derive(Clone, Debug, PartialEq)]
pub struct Booking {
    /// Booking reference
    pub reference: String,
    /// Destination
    pub city: String,
    /// Day of departure
    pub day: String,
    /// Number of travellers
    pub travellers: i64,
    /// Code of the offer
    pub offer: String,
    /// Price in euros
    pub price: i64,
}

/// Book a trip, asking for what is missing
#[flow]
pub async fn book_trip(flow: Flow, _: BookTrip) -> FlowResult<Booking> {
    flow.progress(1.0, STEPS, None);
    let city = flow.ask("city", text("Where to?").length(2..=50).placeholder("Oslo")).await?;
    flow.progress(2.0, STEPS, None);
    let day = flow.ask("day", date("Which day?").after(flow.today())).await?;
    flow.progress(3.0, STEPS, None);
    let travellers = flow.ask("travellers", integer("How many go?").range(1..=9)).await?;

    // A lookup has no side effect, so it may run again.
    let offers = flow.lookup("search", || search(&city, day, travellers)).await?;
    flow.progress(4.0, STEPS, None);
    let offer = flow.ask("offer", choice("Which offer?", &offers)).await?;

    let question = format!("Book {} on {day}?", offer.label());
    flow.progress(5.0, STEPS, None);
    if !flow.ask("sure", confirm(question)).await? {
        return flow.decline("Nothing was booked");
    }

    // A step has a side effect: it runs once, even if the program is restarted.
    let reference = flow.step_with_key("book", |key| book(key, offer.code.clone())).await?;
    flow.summary(format!("Booked as {reference}"));
    Ok(Booking {
        reference,
        city,
        day: day.to_string(),
        travellers,
        offer: offer.code.clone(),
        price: offer.price,
    })
}

/// An offer that can be booked.
#[data]
#[derive(Clone, Debug)]
struct Offer {
    code: String,
    name: String,
    price: i64,
}

impl Choosable for Offer {
    fn value(&self) -> Value {
        self.code.as_str().into()
    }

    fn label(&self) -> String {
        format!("{} for {} €", self.name, self.price)
    }
}

/// Searches offers for a city, a day and a number of travellers.
async fn search(city: &str, day: Date, travellers: i64) -> Result<Vec<Offer>, String> {
    let distance = i64::try_from(city.chars().count()).unwrap_or(0) * 11 + i64::from(day.day());
    let offer = |code: &str, name: &str, price: i64| Offer {
        code: code.to_owned(),
        name: format!("{name} to {city}"),
        price: price * travellers,
    };
    let mut offers =
        vec![offer("rail-1", "Night train", 40 + distance), offer("bus-1", "Coach", 19 + distance)];
    // Small aircraft, so large groups do not fit.
    if travellers <= 4 {
        offers.push(offer("air-1", "Flight", 90 + 2 * distance));
    }
    Ok(offers)
}

/// Books an offer, once for each idempotency key.
async fn book(key: String, code: String) -> Result<String, String> {
    let number =
        key.bytes().fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    Ok(format!("{}-{number:08X}", code.to_uppercase()))
}

const STEPS: f64 = 5.0;
