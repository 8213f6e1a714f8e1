//! Requests of terminals (clauses 2.4.1 to 2.8.1), and how often (clause 5.2.3).

use super::population::{DISTRICTS, LOADED_AT, Scale};
use super::random::{self, one_in, uniform};
use crate::rows::Draw;

/// A kind of transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

impl Kind {
    pub(crate) const ALL: [Kind; 5] =
        [Kind::NewOrder, Kind::Payment, Kind::OrderStatus, Kind::Delivery, Kind::StockLevel];

    /// As in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::NewOrder => "NewOrder",
            Kind::Payment => "Payment",
            Kind::OrderStatus => "OrderStatus",
            Kind::Delivery => "Delivery",
            Kind::StockLevel => "StockLevel",
        }
    }

    /// How many cards it has in a deck of 23 (clause 5.2.4.2).
    fn cards(self) -> usize {
        match self {
            Kind::NewOrder | Kind::Payment => 10,
            _ => 1,
        }
    }

    /// Seconds that an operator takes to type the request (clause 5.2.5.7).
    pub(crate) fn keying_s(self) -> f64 {
        match self {
            Kind::NewOrder => 18.0,
            Kind::Payment => 3.0,
            _ => 2.0,
        }
    }

    /// Mean seconds that an operator looks at the answer (clause 5.2.5.7).
    pub(crate) fn thinking_s(self) -> f64 {
        match self {
            Kind::NewOrder | Kind::Payment => 12.0,
            Kind::OrderStatus => 10.0,
            _ => 5.0,
        }
    }
}

/// Who the customer is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Id(i32),
    LastName(String),
}

/// An item of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) item: i32,
    pub(crate) supply_warehouse: i32,
    pub(crate) quantity: i32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewOrderRequest {
    pub(crate) warehouse: i32,
    pub(crate) district: i32,
    pub(crate) customer: i32,
    pub(crate) lines: Vec<Line>,
    pub(crate) entered: i64,
}

impl NewOrderRequest {
    /// Whether all items come from the warehouse itself.
    pub(crate) fn is_local(&self) -> bool {
        self.lines.iter().all(|line| line.supply_warehouse == self.warehouse)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PaymentRequest {
    pub(crate) warehouse: i32,
    pub(crate) district: i32,
    pub(crate) customer_warehouse: i32,
    pub(crate) customer_district: i32,
    pub(crate) who: Who,
    pub(crate) amount: i64,
    pub(crate) date: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OrderStatusRequest {
    pub(crate) warehouse: i32,
    pub(crate) district: i32,
    pub(crate) who: Who,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeliveryRequest {
    pub(crate) warehouse: i32,
    pub(crate) carrier: i32,
    pub(crate) date: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StockLevelRequest {
    pub(crate) warehouse: i32,
    pub(crate) district: i32,
    pub(crate) threshold: i32,
}

/// A request of any kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    NewOrder(NewOrderRequest),
    Payment(PaymentRequest),
    OrderStatus(OrderStatusRequest),
    Delivery(DeliveryRequest),
    StockLevel(StockLevelRequest),
}

impl Request {
    /// Its kind.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Request::NewOrder(_) => Kind::NewOrder,
            Request::Payment(_) => Kind::Payment,
            Request::OrderStatus(_) => Kind::OrderStatus,
            Request::Delivery(_) => Kind::Delivery,
            Request::StockLevel(_) => Kind::StockLevel,
        }
    }
}

/// A terminal: where it stands, and what it asks next.
pub(crate) struct Terminal {
    scale: Scale,
    /// Of a fixed warehouse and, for Stock-Level, a fixed district; or, without think time, of all warehouses.
    home: Option<(i32, i32)>,
    draw: Draw,
    deck: Vec<Kind>,
    /// Entered times are counted, so that equal seeds ask the same.
    moment: i64,
}

impl Terminal {
    /// A terminal that draws from this stream.
    pub(crate) fn new(scale: Scale, home: Option<(i32, i32)>, draw: Draw) -> Terminal {
        Terminal { scale, home, draw, deck: Vec::new(), moment: LOADED_AT }
    }

    /// Mean `seconds`, distributed as the specification asks (clause 5.2.5.4): exponentially, at most ten times that.
    pub(crate) fn thinking_s(&mut self, mean_s: f64) -> f64 {
        let uniform = (self.draw.below(1 << 53) + 1) as f64 / (1_u64 << 53) as f64;
        (-uniform.ln() * mean_s).min(10.0 * mean_s)
    }

    /// A second number, such as the moment at which a terminal begins.
    pub(crate) fn fraction(&mut self) -> f64 {
        self.draw.below(1 << 53) as f64 / (1_u64 << 53) as f64
    }

    /// What it asks next.
    pub(crate) fn next_request(&mut self) -> Request {
        if self.deck.is_empty() {
            self.deck = Kind::ALL.iter().flat_map(|kind| std::iter::repeat_n(*kind, kind.cards())).collect();
            for place in (1..self.deck.len()).rev() {
                self.deck.swap(place, self.draw.below(place as u64 + 1) as usize);
            }
        }
        let kind = self.deck.pop().expect("a deck has just been shuffled");
        self.moment += 1;
        let (scale, draw, date) = (self.scale, &mut self.draw, self.moment);
        let (warehouse, own_district) = match self.home {
            Some(home) => home,
            None => (uniform(draw, 1, scale.warehouses), uniform(draw, 1, DISTRICTS)),
        };
        match kind {
            Kind::NewOrder => Request::NewOrder(new_order(scale, draw, warehouse, date)),
            Kind::Payment => Request::Payment(payment(scale, draw, warehouse, date)),
            Kind::OrderStatus => Request::OrderStatus(OrderStatusRequest {
                warehouse,
                district: uniform(draw, 1, DISTRICTS),
                who: who(scale, draw),
            }),
            Kind::Delivery => Request::Delivery(DeliveryRequest { warehouse, carrier: uniform(draw, 1, 10), date }),
            Kind::StockLevel => Request::StockLevel(StockLevelRequest {
                warehouse,
                district: own_district,
                threshold: uniform(draw, 10, 20),
            }),
        }
    }
}

fn who(scale: Scale, draw: &mut Draw) -> Who {
    match draw.below(100) {
        0..60 => Who::LastName(random::last_name(random::last_name_asked(draw, scale.last_names()))),
        _ => Who::Id(random::customer(draw, scale.customers)),
    }
}

/// Another warehouse than this, if there is one.
fn other_warehouse(scale: Scale, draw: &mut Draw, warehouse: i32) -> i32 {
    if scale.warehouses == 1 {
        return warehouse;
    }
    let other = uniform(draw, 1, scale.warehouses - 1);
    if other < warehouse { other } else { other + 1 }
}

fn new_order(scale: Scale, draw: &mut Draw, warehouse: i32, entered: i64) -> NewOrderRequest {
    let district = uniform(draw, 1, DISTRICTS);
    let customer = random::customer(draw, scale.customers);
    let is_rolled_back = one_in(draw, 100);
    let mut lines: Vec<Line> = (0..uniform(draw, 5, 15))
        .map(|_| Line {
            item: random::item(draw, scale.items),
            supply_warehouse: if one_in(draw, 100) { other_warehouse(scale, draw, warehouse) } else { warehouse },
            quantity: uniform(draw, 1, 10),
        })
        .collect();
    if let Some(last) = lines.last_mut().filter(|_| is_rolled_back) {
        last.item = scale.items + 1;
    }
    NewOrderRequest { warehouse, district, customer, lines, entered }
}

fn payment(scale: Scale, draw: &mut Draw, warehouse: i32, date: i64) -> PaymentRequest {
    let district = uniform(draw, 1, DISTRICTS);
    let (customer_warehouse, customer_district) = match draw.below(100) {
        0..85 => (warehouse, district),
        _ => (other_warehouse(scale, draw, warehouse), uniform(draw, 1, DISTRICTS)),
    };
    let who = who(scale, draw);
    let amount = i64::from(uniform(draw, 100, 500_000));
    PaymentRequest { warehouse, district, customer_warehouse, customer_district, who, amount, date }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mix_is_that_of_the_specification() {
        let mut terminal = Terminal::new(Scale::full(10), None, Draw::new(3));
        let requests: Vec<Request> = (0..23_000).map(|_| terminal.next_request()).collect();
        let of = |kind| requests.iter().filter(|request| request.kind() == kind).count();
        assert_eq!(Kind::ALL.map(of), [10_000, 10_000, 1_000, 1_000, 1_000]);
        let mut rolled_back = 0;
        let (mut lines, mut remote_lines, mut remote_payments, mut by_name) = (0, 0, 0, 0);
        for request in &requests {
            match request {
                Request::NewOrder(order) => {
                    assert!((5..=15).contains(&order.lines.len()));
                    rolled_back += usize::from(order.lines.iter().any(|line| line.item > 100_000));
                    lines += order.lines.len();
                    remote_lines += order.lines.iter().filter(|line| line.supply_warehouse != order.warehouse).count();
                }
                Request::Payment(payment) => {
                    remote_payments += usize::from(payment.customer_warehouse != payment.warehouse);
                    by_name += usize::from(matches!(payment.who, Who::LastName(_)));
                }
                _ => {}
            }
        }
        assert!((60..150).contains(&rolled_back), "{rolled_back}");
        assert!((700..1_300).contains(&(remote_lines * 100_000 / lines)), "{remote_lines} of {lines}");
        assert!((1_300..1_700).contains(&remote_payments), "{remote_payments}");
        assert!((5_800..6_200).contains(&by_name), "{by_name}");
    }
}
