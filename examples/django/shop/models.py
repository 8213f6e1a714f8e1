from django.db import models


class Order(models.Model):
    code = models.CharField(max_length=20, unique=True)
    customer = models.CharField(max_length=40, db_index=True)
    total = models.DecimalField(max_digits=12, decimal_places=2)
    placed = models.DateTimeField(db_index=True)

    class Meta:
        ordering = ["id"]

    def __str__(self):
        return self.code
