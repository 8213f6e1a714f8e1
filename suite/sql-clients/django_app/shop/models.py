import uuid

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import BTreeIndex
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Lower, Now


class Shelf(models.Model):
    name = models.CharField(max_length=40, unique=True)
    colours = ArrayField(models.CharField(max_length=10), default=list)


class Product(models.Model):
    class Kind(models.TextChoices):
        BOOK = "b", "book"
        GAME = "g", "game"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    shelf = models.ForeignKey(Shelf, models.CASCADE, related_name="products")
    related = models.ManyToManyField("self", blank=True)
    code = models.CharField(max_length=20)
    kind = models.CharField(max_length=1, choices=Kind, default=Kind.BOOK)
    price = models.DecimalField(max_digits=12, decimal_places=2)
    price_with_tax = models.GeneratedField(
        expression=F("price") * 2, output_field=models.DecimalField(max_digits=14, decimal_places=2), db_persist=True
    )
    facts = models.JSONField(default=dict)
    picture = models.BinaryField(null=True)
    weight = models.FloatField(null=True)
    stock = models.PositiveIntegerField(default=0)
    since = models.DateTimeField(db_default=Now())
    day = models.DateField(null=True)
    delivery = models.DurationField(null=True)
    address = models.GenericIPAddressField(null=True)

    class Meta:
        ordering = ["code"]
        constraints = [
            models.UniqueConstraint(fields=["shelf", "code"], name="code_of_a_shelf"),
            models.UniqueConstraint(Lower("code"), condition=Q(kind="g"), name="code_of_games"),
            models.CheckConstraint(condition=Q(price__gte=0), name="price_is_no_debt"),
        ]
        indexes = [
            models.Index(fields=["-price", "code"], name="by_price"),
            BTreeIndex(fields=["day"], include=["price"], condition=Q(stock__gt=0), name="by_day"),
        ]
